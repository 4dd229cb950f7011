"""Times of whole networks and of members' steps, measured at different minutes and scaled to one machine speed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from statsnet.profiling.gpu_activity import Launch
from statsnet.signatures.intervals import geometric_mean
from statsnet.signatures.model import Signature
from statsnet.synthesis.bench.block_measurement import BlockPart
from statsnet.synthesis.bench.disturbances import OPERATORS_DIFFER, PROCESSES_DIFFER
from statsnet.synthesis.bench.machine_speed import MachineSpeed
from statsnet.synthesis.bench.tasks import NetworkTrace

Blocks = tuple[tuple[BlockPart, ...], ...]
"""By tower and block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkMeasurement:
    """A network's signature, the seconds it takes to build, and for each process its blocks in place, all at one
    machine speed. The machine took `drift` times as long. `launches` are a GPU's kernels in their order. `processes`
    are the signatures of the single processes, where there were several. `without_slowed` took `slowed_share` of the
    operators' time off. `paces`: for each process, how many times as long as alone its blocks took by the reference
    network."""

    signature: Signature
    build_s: float
    blocks: tuple[Blocks, ...]
    drift: float
    launches: tuple[Launch, ...] = ()
    processes: tuple[Signature, ...] = ()
    slowed_share: float = 0.0
    paces: tuple[float, ...] = ()

    @property
    def latency_s(self) -> float:
        return self.signature.measurements[0].latency_s

    def at_pace(self, paces: Sequence[float]) -> NetworkMeasurement:
        """The same on a machine that does not take so many times as long; one pace for each process."""
        pace = geometric_mean(paces)
        return replace(
            self,
            signature=_scaled(self.signature, 1 / pace),
            blocks=tuple(
                tuple(tuple(part.scale_times(1 / one) for part in tower) for tower in run)
                for run, one in zip(self.blocks, paces, strict=True)
            ),
            drift=self.drift * pace,
            processes=tuple(_scaled(s, 1 / one) for s, one in zip(self.processes, paces, strict=False)),
        )


def network_measurement(trace: NetworkTrace, speed: MachineSpeed) -> NetworkMeasurement:
    """From one process in which the speed's reference network ran too."""
    drift = speed.drift(trace.reference_latency_s)
    in_place = tuple(tuple(part.scale_times(1 / drift) for part in tower) for tower in trace.blocks)
    return NetworkMeasurement(
        signature=_scaled(trace.signature, 1 / drift),
        build_s=trace.build_s,
        blocks=(in_place,),
        drift=drift,
        launches=trace.launches or (),
    )


def _scaled(signature: Signature, factor: float) -> Signature:
    (measurement,) = signature.measurements
    return replace(signature, measurements=(measurement.scale_times(factor),))


def disagree(one: NetworkMeasurement, other: NetworkMeasurement) -> bool:
    """Whether one of two processes must have been disturbed."""
    return not 1 / PROCESSES_DIFFER <= one.latency_s / other.latency_s <= PROCESSES_DIFFER


def merge_undisturbed_runs(runs: Sequence[NetworkMeasurement]) -> NetworkMeasurement:
    """One measurement from several processes, without the disturbed ones; `blocks` has one entry per process."""
    order = sorted(range(len(runs)), key=lambda i: runs[i].latency_s)
    typical_s = runs[order[(len(order) - 1) // 2]].latency_s
    quiet = [i for i in order if typical_s / PROCESSES_DIFFER <= runs[i].latency_s <= typical_s * PROCESSES_DIFFER]
    middle = (len(quiet) - 1) // 2
    signatures = [runs[i].signature for i in quiet]
    return replace(
        runs[quiet[middle]],
        signature=merge_signatures(signatures, middle),
        processes=tuple(signatures),
        blocks=tuple(blocks for i in quiet for blocks in runs[i].blocks),
        drift=geometric_mean([runs[i].drift for i in quiet]),
    )


def without_slowed(now: NetworkMeasurement, before: NetworkMeasurement) -> NetworkMeasurement:
    """The same, but operators that took much longer than in earlier processes of this network (OPERATORS_DIFFER) have
    the times from then."""
    if now.signature.clusters != before.signature.clusters:
        return now
    (measurement,), (earlier,) = now.signature.measurements, before.signature.measurements
    times_s = tuple(
        then_s if time_s is not None and then_s is not None and time_s > OPERATORS_DIFFER * then_s else time_s
        for time_s, then_s in zip(measurement.cluster_time_s, earlier.cluster_time_s, strict=True)
    )
    known = replace(measurement, cluster_time_s=times_s)
    spent_s = measurement.operator_time_s
    share = 1.0 - known.operator_time_s / spent_s if spent_s else 0.0
    return replace(now, signature=replace(now.signature, measurements=(known,)), slowed_share=share)


def merge_signatures(signatures: Sequence[Signature], middle: int) -> Signature:
    """One signature from those of several processes: median times of operators and framework, and all steps. If the
    processes did not run the same operators, the middle one's signature."""
    base = signatures[middle]
    if len(signatures) == 1 or any(s.clusters != base.clusters for s in signatures):
        return base
    measurements = [s.measurements[0] for s in signatures]
    times = zip(*(m.cluster_time_s for m in measurements), strict=True)
    measurement = replace(
        measurements[middle],
        step_latency_s=tuple(t for m in measurements for t in m.step_latency_s),
        cluster_time_s=tuple(_median(_without_outliers(values)) for values in times),
        framework_time_s=_median([m.framework_time_s for m in measurements]),
        idle_time_s=_median([m.idle_time_s for m in measurements]),
    )
    return replace(base, measurements=(measurement,))


def _median(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return median(known) if known else None


def _without_outliers(values: Iterable[float | None]) -> list[float]:
    known = [v for v in values if v is not None]
    return [v for v in known if v <= OPERATORS_DIFFER * min(known)]
