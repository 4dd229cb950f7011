"""Members from another environment: profiled again where their model is at hand, replayed where it is not."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from synthesis_builders import NOTHING, TINY, alone, bench_setup, candidate, mix_of, moved, part, play

from statsnet.errors import DeviceError, WorkloadError
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.process import run
from statsnet.measure.task import Task
from statsnet.measure.timing_tasks import TimedStep, TimeNetwork, TimeWorkload
from statsnet.profiling.tasks import Profile, ProfileWorkload, Replayed, ReplayOperators, _slower
from statsnet.signatures.canonical import content_id
from statsnet.signatures.model import Signature
from statsnet.signatures.target import target_of_mix
from statsnet.signatures.timing import Timing
from statsnet.synthesis import live_bench
from statsnet.synthesis.live_bench import LiveBench
from statsnet.synthesis.network_measurement import MachineSpeed, scale_times
from statsnet.synthesis.problem import Design, ProxyRequest, prepare
from statsnet.synthesis.tasks import MeasureBlocks, MeasureIdleStep, NetworkTrace, TraceNetwork

NETWORK = "a reference network's source"
SPEED = MachineSpeed(reference_network=NETWORK, reference_latency_s=0.01)


@pytest.fixture(scope="module")
def profile() -> Signature:
    """A tiny workload's signature."""
    return run(ProfileWorkload(model=TINY, min_time_s=0.01)).signature


@pytest.fixture
def bench(tmp_path: Path, profile: Signature) -> LiveBench:
    environment = profile.measurements[0].environment
    return LiveBench(bench_setup(MeasurementCache(tmp_path / "cache"), environment=environment))


def with_setup(bench: LiveBench, **changes: Any) -> LiveBench:
    return LiveBench(replace(bench.setup, **changes))


def with_fresh_cache(bench: LiveBench, since_ns: int) -> LiveBench:
    return with_setup(bench, cache=MeasurementCache(bench.setup.cache.folder, fresh_since_ns=since_ns))


def timed(*latency_s: float) -> TimedStep:
    return TimedStep(timing=Timing(latency_s=latency_s), environment={})


def in_turns(windows_s: list[float], reference_s: list[float]) -> TimedStep:
    """What a process says of a member's steps, which took turns with the reference network."""
    timing = Timing(latency_s=tuple(windows_s), window_latency_s=tuple(windows_s))
    return TimedStep(timing=timing, environment={}, reference_latency_s=tuple(reference_s))


def beside_a_reference_network(latency_s: float) -> TimedStep:
    return in_turns([latency_s] * 3, [0.01] * 3)


def test_a_model_at_hand_is_profiled_once(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = play(monkeypatch, live_bench, run)
    for _ in range(2):  # the second time from the cache
        mix, replayed = bench.measure_members(mix_of(moved(profile)))
        (measurement,) = mix.members[0].signature.measurements
        assert measurement.environment["cpu_model"] != "Z80"
        assert measurement.source == "profile"
        assert replayed == {}
    assert tasks == [ProfileWorkload(model=TINY)]
    again, _ = bench.measure_members(mix)
    assert again == mix


def test_with_a_fresh_cache_all_models_at_hand_are_profiled(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once each, for mixes that share the cache; what cannot be profiled keeps the times it has from here."""
    tasks = play(monkeypatch, live_bench, run)
    assert bench.measure_members(mix_of(profile)) == (mix_of(profile), {})
    assert tasks == []
    fresh = with_fresh_cache(bench, time.time_ns())
    for _ in range(2):
        mix, replayed = fresh.measure_members(mix_of(profile))
        assert mix.members[0].signature.id != profile.id
        assert replayed == {}
    assert [type(task) for task in tasks] == [ProfileWorkload]
    unknown = mix_of(replace(profile, workload=None))
    assert fresh.measure_members(unknown) == (unknown, {})


@pytest.mark.parametrize("factor", [0.7, 1.6])
def test_members_take_as_long_as_they_take_now(
    factor: float, profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As much longer than when they were profiled, in all their parts, as their steps take beside the reference
    network's, on a machine that is not as fast from one moment to the next."""
    (before,) = profile.measurements
    speeds, noise = (1.0, 0.8, 2.0, 1.0), (1.0, 0.9, 1.1, 1.0)
    steps_s = [factor * before.latency_s * s * n for s, n in zip(speeds, noise, strict=True)]
    tasks = play(monkeypatch, live_bench, lambda _: in_turns(steps_s, [0.01 * s for s in speeds]))
    again, speed = bench.retime_members(target_of_mix(mix_of(profile)), {"m0"}, NETWORK)
    slower = (0.8 * 2.0) ** 0.25
    assert speed.reference_network == NETWORK
    assert speed.reference_latency_s == pytest.approx(0.01 * slower)
    factor *= slower * (0.9 * 1.1) ** 0.25
    now = again["m0"]
    assert now.latency_s == pytest.approx(factor * before.latency_s)
    assert now.operator_time_s == pytest.approx(factor * before.operator_time_s)
    assert now.framework_time_s == pytest.approx(factor * (before.framework_time_s or 0.0))
    assert now.kernel_class == before.kernel_class
    assert isinstance(tasks[0], TimeWorkload) and tasks[0].model == TINY


@pytest.mark.parametrize(("slower", "factor"), [("step", 3.0), ("reference", 3.0), ("step", 0.3)])
def test_few_members_are_timed_in_several_processes(
    slower: str, factor: float, profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in which the step or its reference network had a busy neighbour is outvoted."""
    now_s = 1.2 * profile.measurements[0].latency_s
    step_s, reference_s = (factor if slower == name else 1.0 for name in ("step", "reference"))
    disturbed = in_turns([step_s * now_s] * 3, [reference_s * 0.01] * 3)
    outcomes = [disturbed, beside_a_reference_network(now_s), beside_a_reference_network(now_s)]
    play(monkeypatch, live_bench, lambda _: outcomes.pop())
    again, _ = bench.retime_members(target_of_mix(mix_of(profile)), {"m0"}, NETWORK)
    assert again["m0"].latency_s == pytest.approx(now_s)
    assert outcomes == []


@pytest.mark.parametrize(("count", "limit_s"), [(1, 15.0), (20, 6.0), (200, 4.0)])
def test_many_members_are_timed_for_a_shorter_time_each(
    count: int, limit_s: float, profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each is named before its process starts, which says nothing itself."""
    target = target_of_mix(mix_of(*[profile] * count))
    limits: list[float | None] = []
    stages: list[str] = []

    def answer(task: Any) -> TimedStep:
        limits.append(task.limits.max_time_s)
        assert len(stages) == len(limits)
        return beside_a_reference_network(1.1 * profile.measurements[0].latency_s)

    play(monkeypatch, live_bench, answer)
    shown = with_setup(bench, report=lambda progress: stages.append(progress.stage))
    again, _ = shown.retime_members(target, {m.name for m in target.members}, NETWORK)
    assert len(again) == count
    processes = max(count, live_bench.RETIMED_PROCESSES)
    assert limits == [pytest.approx(limit_s)] * processes
    assert stages[-1] == f"timing m{count - 1} once more ({processes} of {processes})"


def test_what_cannot_be_timed_keeps_its_times(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is not asked for, a customer's own, one that there is not enough memory for, and another version."""
    ours = target_of_mix(mix_of(profile))
    customers = target_of_mix(mix_of(replace(profile, workload=None)))
    outcomes: list[Callable[[], TimedStep]] = [lambda: timed(0.01, 0.02, 0.03)]
    play(monkeypatch, live_bench, lambda _: outcomes.pop()())
    for _ in range(2):  # the second time from the cache
        assert bench.retime_members(ours, set(), NETWORK) == ({}, replace(SPEED, reference_latency_s=0.02))
        assert bench.retime_members(customers, {"m0"}, NETWORK)[0] == {}

    def without_memory() -> TimedStep:
        raise DeviceError("not enough memory")

    outcomes.append(without_memory)
    assert bench.retime_members(ours, {"m0"}, NETWORK)[0] == {}
    for factor in (0.3, 3.0):
        step = beside_a_reference_network(factor * profile.measurements[0].latency_s)
        outcomes += [lambda step=step: step] * live_bench.RETIMED_PROCESSES  # type: ignore[misc]
        assert bench.retime_members(ours, {"m0"}, NETWORK)[0] == {}
    assert outcomes == []


def answers(profile: Signature) -> Callable[[Task[Any]], Any]:
    """What processes say on a machine that is as fast as when the signature was measured."""
    (measurement,) = profile.measurements

    def answer(task: Any) -> Any:
        match task:
            case ProfileWorkload():
                return Profile(signature=replace(profile))
            case ReplayOperators():
                return Replayed(measurement=replace(measurement, source="replay"))
            case TimeWorkload():
                return beside_a_reference_network(measurement.latency_s)
            case TimeNetwork():
                return timed(0.01)
            case MeasureBlocks():
                return [alone(part("k", 0.001), NOTHING) for _ in task.blocks]
            case MeasureIdleStep():
                return dict.fromkeys(("block", *task.optimizers), 0.0001)
            case TraceNetwork():
                blocks = ((part("k", 0.001, weights=8),),)
                return NetworkTrace(signature=profile, build_s=1.0, blocks=blocks, reference_latency_s=0.01)

    return answer


@pytest.mark.parametrize("fresh", [None, 0])
def test_what_keeps_its_stored_times_is_named(
    fresh: int | None, profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that is at hand is timed again, a customer's is not."""
    play(monkeypatch, live_bench, answers(profile))
    mix = mix_of(profile, replace(profile, workload=None))
    bench = bench if fresh is None else with_fresh_cache(bench, fresh)
    assert prepare(mix, bench, ProxyRequest(mix_text="a mix"), Design()).not_retimed == ("m1",)


MEASURED: dict[str, Callable[[LiveBench, Signature], Any]] = {
    "profiles": lambda bench, profile: bench.measure_members(mix_of(moved(profile)))[0].members[0].signature,
    "replays": lambda bench, profile: bench.measure_members(mix_of(moved(replace(profile, workload=None))))[1],
    "a reference network": lambda bench, _: bench.machine_speed(NETWORK),
    "blocks": lambda bench, _: bench.measure_blocks([candidate("a"), candidate("b", "adam", shape=(2, 3))]),
    "an idle step": lambda bench, _: bench.idle_s(["adam", "sgd", "adam"]),
    "a network": lambda bench, _: bench.measure_network("a proxy", range(2), SPEED),
}


@pytest.mark.parametrize("what", MEASURED)
def test_what_was_measured_is_taken_from_the_cache(
    what: str, profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not if the dtype is another, or the entry has another form, as that of a version before."""
    tasks = play(monkeypatch, live_bench, answers(profile))

    def measured(bench: LiveBench) -> str:
        """To nine digits, as a cache keeps them."""
        return content_id({"measured": msgspec.to_builtins(MEASURED[what](bench, profile))})

    bench = with_setup(bench, mode="training")
    first = measured(bench)
    run_once = len(tasks)
    assert run_once > 0
    assert measured(bench) == first
    assert measured(with_setup(bench, cache=MeasurementCache(bench.setup.cache.folder))) == first
    assert len(tasks) == run_once
    measured(with_setup(bench, dtype="bfloat16"))
    assert len(tasks) == 2 * run_once
    for path in bench.setup.cache.folder.rglob("*.json"):
        path.write_text(f'{{"value": {{"of": "another form"}}, "put_ns": {time.time_ns()}}}')
    assert measured(bench) == first
    assert len(tasks) == 3 * run_once


@pytest.mark.parametrize("reason", ["unknown", "other work", "not installed"])
def test_what_is_not_at_hand_is_replayed(
    reason: str, profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    signature = moved(profile)
    if reason == "unknown":
        signature = replace(signature, workload=None)
    if reason == "other work":
        clusters = tuple(replace(c, calls=3 * c.calls) for c in signature.clusters)
        signature = replace(signature, clusters=clusters)

    def answer(task: Task[Any]) -> Any:
        if reason == "not installed" and isinstance(task, ProfileWorkload):
            raise WorkloadError("no such library")
        return run(task)

    tasks = play(monkeypatch, live_bench, answer)
    mix, replayed = bench.measure_members(mix_of(signature))
    assert mix == mix_of(signature)
    assert replayed["m0"].source == "replay"
    assert isinstance(tasks[-1], ReplayOperators)


def test_what_lies_between_operators_slows_down_as_they_do(profile: Signature) -> None:
    (recorded,) = profile.measurements
    times = [
        None if t is None else 3.0 * t / c.calls for t, c in zip(recorded.cluster_time_s, profile.clusters, strict=True)
    ]
    assert _slower(profile, times, recorded) == pytest.approx(3.0)
    assert _slower(profile, [None, *times[1:]], recorded) == pytest.approx(3.0)
    assert _slower(profile, times, None) == 1.0


def test_whole_networks_are_as_fast_as_when_members_were_timed(
    profile: Signature, bench: LiveBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes on a machine that was a fifth faster in one of them, and twice as slow in the other."""
    (usual,) = profile.measurements
    speeds = [0.8, 2.0]

    def answer(task: Any) -> NetworkTrace:
        assert Path(task.folder, "network.py").read_text() == "a proxy"
        assert Path(task.reference_network, "network.py").read_text() == NETWORK
        speed = speeds.pop(0)
        return NetworkTrace(
            signature=replace(profile, measurements=(scale_times(usual, speed),)),
            build_s=1.0,
            blocks=((part("k", 0.002 * speed),),),
            reference_latency_s=0.01 * speed,
        )

    play(monkeypatch, live_bench, answer)
    for _ in range(2):  # the second time from the cache
        network = bench.measure_network("a proxy", range(2), SPEED)
        assert network.latency_s == pytest.approx(usual.latency_s)
        assert network.signature.measurements[0].operator_time_s == pytest.approx(usual.operator_time_s)
        assert [b[0][0].operator_time_s for b in network.blocks] == [pytest.approx(0.002)] * 2
        assert network.drift == pytest.approx((0.8 * 2.0) ** 0.5)
    again = bench.measure_network("a proxy", range(1), replace(SPEED, reference_latency_s=0.02))
    assert again.latency_s == pytest.approx(2 * usual.latency_s)
