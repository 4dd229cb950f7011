"""Live benches for tests, and what measuring processes would say to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from synthesis_builders import NOTHING, alone, part

from statsnet.measure.cache import MeasurementCache
from statsnet.measure.reference_network import Looked, TimeReferenceNetwork
from statsnet.measure.task import Task
from statsnet.measure.timing_tasks import TimedStep, TimeWorkload
from statsnet.profiling.replay_task import Replayed, ReplayOperators
from statsnet.profiling.tasks import Profile, ProfileWorkload
from statsnet.signatures.model import Signature
from statsnet.signatures.timing import Timing
from statsnet.synthesis.bench.live_bench import LiveBench
from statsnet.synthesis.bench.machine_speed import MachineSpeed
from statsnet.synthesis.bench.tasks import IdleTimes, MeasureBlocks, MeasureIdleStep, NetworkTrace, TraceNetwork

NETWORK = "a reference network's source"
SPEED = MachineSpeed(reference_network=NETWORK, reference_latency_s=0.01)


def with_setup(bench: LiveBench, **changes: Any) -> LiveBench:
    return LiveBench(replace(bench.setup, **changes))


def with_fresh_cache(bench: LiveBench, since_ns: int) -> LiveBench:
    return with_setup(bench, cache=MeasurementCache(bench.setup.cache.folder, fresh_since_ns=since_ns))


def in_turns(windows_s: list[float], reference_s: list[float]) -> TimedStep:
    """What a process says of a member's steps, which took turns with the reference network."""
    timing = Timing(latency_s=tuple(windows_s), window_latency_s=tuple(windows_s))
    return TimedStep(timing=timing, environment={}, reference_latency_s=tuple(reference_s))


def beside_a_reference_network(latency_s: float) -> TimedStep:
    return in_turns([latency_s] * 3, [0.01] * 3)


def answers(profile: Signature, *, slower: float = 1.0) -> Callable[[Task[Any]], Any]:
    """What processes say on a machine that is `slower` than at SPEED."""
    (measurement,) = profile.measurements
    reference_s = slower * 0.01

    def answer(task: Any) -> Any:
        match task:
            case ProfileWorkload():
                return Profile(signature=replace(profile), reference_latency_s=reference_s)
            case ReplayOperators():
                parts = [*measurement.cluster_time_s, measurement.framework_time_s]
                replayed = replace(measurement, step_latency_s=(sum(t or 0.0 for t in parts),), source="replay")
                return Replayed(measurement=replayed, reference_latency_s=reference_s)
            case TimeWorkload():
                return beside_a_reference_network(measurement.latency_s)
            case TimeReferenceNetwork():
                return Looked(latency_s=reference_s)
            case MeasureBlocks():
                block = replace(alone(part("k", 0.001), NOTHING), reference_latency_s=reference_s)
                return [block for _ in task.blocks]
            case MeasureIdleStep():
                idle_s = dict.fromkeys(("block", *task.optimizers), 0.0001)
                return IdleTimes(idle_s=idle_s, reference_latency_s=reference_s)
            case TraceNetwork():
                blocks = ((part("k", 0.001, weights=8),),)
                return NetworkTrace(signature=profile, build_s=1.0, blocks=blocks, reference_latency_s=reference_s)

    return answer
