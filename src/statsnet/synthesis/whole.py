"""Times of whole networks and of members' steps, measured at different minutes and brought to one pace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from statsnet.running.statistics import geometric_mean, paired_ratio
from statsnet.signatures.model import Measurement, Signature

DISTURBED = 1.08
"""A process that differs from the middle one by more than this had a busy neighbour, or its yardstick had: brought to
the pace, a step looks as much faster as its yardstick alone was slowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """A yardstick (see running/yardstick.py), and how long its step took while the mix's members were timed: all times
    of whole networks are brought to the machine's speed of then."""

    source: str
    latency_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A proxy's signature, the seconds it takes to build, and per process, tower and block its operators in place, all
    at one pace; the machine took `drift` times as long. On a GPU `launches` are its kernels in their order."""

    signature: Signature
    build_s: float
    blocks: list[list[list[dict[str, Any]]]]
    drift: float
    launches: tuple[dict[str, Any], ...] = ()


def whole_of(data: dict[str, Any], pace: Pace) -> Whole:
    """From the result of `jobs.trace_proxy` in one process."""
    drift = data["yardstick_latency_s"] / pace.latency_s
    signature = Signature.from_dict(data["signature"])
    (measurement,) = signature.measurements
    return Whole(
        signature=replace(signature, measurements=(slowed(measurement, 1 / drift),)),
        build_s=float(data["build_s"]),
        blocks=[[[_part_slowed(part, 1 / drift) for part in tower] for tower in data["blocks"]]],
        drift=drift,
        launches=tuple(data.get("launches", ())),
    )


def paced_s(turns: dict[str, Any], pace: Pace) -> float:
    """A step's seconds at a pace, from a process in which it took turns with the pace's yardstick."""
    step, yardstick = turns["window_latency_s"], turns["yardstick_latency_s"]
    ratio = paired_ratio(
        [{"latency_s": yardstick, "window_latency_s": yardstick}],
        [{"latency_s": step, "window_latency_s": step}],
    )
    return pace.latency_s * ratio.value


def _part_slowed(part: dict[str, Any], factor: float) -> dict[str, Any]:
    """Operators of a block on a machine that takes `factor` times as long."""
    return {**part, "operators": [{**row, "time_s": factor * row["time_s"]} for row in part["operators"]]}


def slowed(measurement: Measurement, factor: float) -> Measurement:
    """The same on a machine that takes `factor` times as long."""
    between = {name: getattr(measurement, name) for name in ("framework_time_s", "idle_time_s")}
    return replace(
        measurement,
        step_latency_s=tuple(factor * t for t in measurement.step_latency_s),
        cluster_time_s=tuple(None if t is None else factor * t for t in measurement.cluster_time_s),
        **{name: None if t is None else factor * t for name, t in between.items()},
        gpu=measurement.gpu.slowed(factor) if measurement.gpu else None,
    )


def quiet_together(runs: list[Whole]) -> Whole:
    """One from those of several processes, without the disturbed ones; `blocks` has one entry per process."""
    latencies = [run.signature.measurements[0].latency_s for run in runs]
    order = sorted(range(len(runs)), key=latencies.__getitem__)
    typical_s = latencies[order[(len(order) - 1) // 2]]
    quiet = [i for i in order if typical_s / DISTURBED <= latencies[i] <= typical_s * DISTURBED]
    middle = (len(quiet) - 1) // 2
    return replace(
        runs[quiet[middle]],
        signature=_together([runs[i].signature for i in quiet], middle),
        blocks=[blocks for i in quiet for blocks in runs[i].blocks],
        drift=geometric_mean([runs[i].drift for i in quiet]),
    )


def _together(signatures: list[Signature], middle: int) -> Signature:
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
