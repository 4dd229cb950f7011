"""Times of whole networks and of members' steps, measured at different minutes and brought to one pace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from statsnet.signatures.intervals import geometric_mean, paired_ratio
from statsnet.signatures.model import Measurement, Signature

DISTURBED = 1.08
"""A process that differs from the middle one by more than this had a busy neighbour, or its reference network had: at
reference speed, a step looks as much faster as the reference network alone was slowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSpeed:
    """The source of a reference network (measure/reference_network.py), and how long its step took while the mix's
    members were timed. All times of whole networks are brought to the machine's speed of then."""

    source: str
    latency_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkMeasurement:
    """A proxy's signature, the seconds it takes to build, and per process, tower and block its operators in place, all
    at one pace; the machine took `drift` times as long. On a GPU `launches` are its kernels in their order."""

    signature: Signature
    build_s: float
    blocks: list[list[list[dict[str, Any]]]]
    drift: float
    launches: tuple[dict[str, Any], ...] = ()


def network_measurement(data: dict[str, Any], pace: MachineSpeed) -> NetworkMeasurement:
    """From the result of `jobs.trace_proxy` in one process."""
    drift = data["reference_latency_s"] / pace.latency_s
    signature = Signature.from_dict(data["signature"])
    (measurement,) = signature.measurements
    return NetworkMeasurement(
        signature=replace(signature, measurements=(scale_times(measurement, 1 / drift),)),
        build_s=float(data["build_s"]),
        blocks=[[[_part_slowed(part, 1 / drift) for part in tower] for tower in data["blocks"]]],
        drift=drift,
        launches=tuple(data.get("launches", ())),
    )


def at_reference_speed_s(turns: dict[str, Any], pace: MachineSpeed) -> float:
    """A step's seconds at a pace, from a process in which it took turns with the pace's reference_network."""
    step, reference_network = turns["window_latency_s"], turns["reference_latency_s"]
    ratio = paired_ratio(
        [{"latency_s": reference_network, "window_latency_s": reference_network}],
        [{"latency_s": step, "window_latency_s": step}],
    )
    return pace.latency_s * ratio.value


def _part_slowed(part: dict[str, Any], factor: float) -> dict[str, Any]:
    """Operators of a block on a machine that takes `factor` times as long."""
    return {**part, "operators": [{**row, "time_s": factor * row["time_s"]} for row in part["operators"]]}


def scale_times(measurement: Measurement, factor: float) -> Measurement:
    """The same on a machine that takes `factor` times as long."""
    between = {name: getattr(measurement, name) for name in ("framework_time_s", "idle_time_s")}
    return replace(
        measurement,
        step_latency_s=tuple(factor * t for t in measurement.step_latency_s),
        cluster_time_s=tuple(None if t is None else factor * t for t in measurement.cluster_time_s),
        **{name: None if t is None else factor * t for name, t in between.items()},
        gpu=measurement.gpu.scale_times(factor) if measurement.gpu else None,
    )


def merge_undisturbed_runs(runs: list[NetworkMeasurement]) -> NetworkMeasurement:
    """One from those of several processes, without the disturbed ones; `blocks` has one entry per process."""
    latencies = [run.signature.measurements[0].latency_s for run in runs]
    order = sorted(range(len(runs)), key=latencies.__getitem__)
    typical_s = latencies[order[(len(order) - 1) // 2]]
    quiet = [i for i in order if typical_s / DISTURBED <= latencies[i] <= typical_s * DISTURBED]
    middle = (len(quiet) - 1) // 2
    return replace(
        runs[quiet[middle]],
        signature=merge_signatures([runs[i].signature for i in quiet], middle),
        blocks=[blocks for i in quiet for blocks in runs[i].blocks],
        drift=geometric_mean([runs[i].drift for i in quiet]),
    )


def merge_signatures(signatures: list[Signature], middle: int) -> Signature:
    """One signature from those of several processes: operators' and framework's median times, and all steps. Where the
    processes did not run the same operators, that of the middle one."""
    base = signatures[middle]
    if len(signatures) == 1 or any(s.clusters != base.clusters for s in signatures):
        return base
    found = [s.measurements[0] for s in signatures]
    times = zip(*(m.cluster_time_s for m in found), strict=True)
    measurement = replace(
        found[middle],
        step_latency_s=tuple(t for m in found for t in m.step_latency_s),
        cluster_time_s=tuple(_median(values) for values in times),
        framework_time_s=_median([m.framework_time_s for m in found]),
        idle_time_s=_median([m.idle_time_s for m in found]),
    )
    return replace(base, measurements=(measurement,))


def _median(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return median(known) if known else None
