"""Times of a signature at level `coarse`: those that the rounded step would take.

Each cluster's time follows its own work, from exact sizes to rounded ones, so that its rates stay. If all times kept
their ratios instead, these would tell the ratios of exact sizes: two products by one kernel take times like their
FLOPs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from statsnet.signatures.collectives import Collectives
from statsnet.signatures.gpu import SUM_COUNTERS, GpuActivity
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import bytes_of
from statsnet.signatures.rounding import in_steps, rounded

COMPUTING = 10.0
"""FLOPs per byte from which a call takes a time like its FLOPs, not like its bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """A rounded cluster's time over the exact one's, and the same of its bytes."""

    time: float
    moved: float

    @classmethod
    def of(cls, exact: Cluster, told: Cluster) -> Pace:
        calls = told.calls / exact.calls
        moved = _ratio(exact.bytes_moved, told.bytes_moved)
        if moved is None:
            moved = _ratio(bytes_of(exact.args, exact.outputs), bytes_of(told.args, told.outputs)) or 1.0
        computes = (exact.flops or 0.0) > COMPUTING * (exact.bytes_moved or math.inf)
        work = _ratio(exact.flops, told.flops) if computes else None
        return cls(time=calls * (work or moved), moved=calls * moved)


def _ratio(exact: float | None, told: float | None) -> float | None:
    return told / exact if exact and told else None


def paced(measurement: Measurement, paces: Sequence[Pace], otherwise: float) -> Measurement:
    """Times that follow each cluster's work. All others follow these together; or, where no cluster has a time, the
    factor `otherwise`."""
    pairs = [(pace.time, time_s) for pace, time_s in zip(paces, measurement.cluster_time_s, strict=True) if time_s]
    exact_s = math.fsum(time_s for _, time_s in pairs)
    step = math.fsum(factor * time_s for factor, time_s in pairs) / exact_s if exact_s else otherwise
    times = zip(paces, measurement.cluster_time_s, strict=True)
    return replace(
        measurement.scale_times(step),
        cluster_time_s=tuple(None if t is None else pace.time * t for pace, t in times),
        gpu=None if measurement.gpu is None else _paced_gpu(measurement.gpu, paces, step),
        collectives=measurement.collectives and _paced_collectives(measurement.collectives, paces, step),
    )


def _paced_gpu(gpu: GpuActivity, paces: Sequence[Pace], step: float) -> GpuActivity:
    """Without grids and blocks already: what is added up now is rounded afterwards."""
    energy_j = gpu.power.energy_j_per_step
    factors = [step if k.cluster is None else paces[k.cluster].time for k in gpu.kernels]
    return replace(
        gpu.scale_times(step),
        kernels=tuple(
            replace(k, grid=None, block=None, time_s=factor * k.time_s)
            for k, factor in zip(gpu.kernels, factors, strict=True)
        ),
        power=replace(gpu.power, energy_j_per_step=None if energy_j is None else step * energy_j),
        counters=replace(gpu.counters, clusters={
            name: tuple(
                v if v is None or name not in SUM_COUNTERS else v * pace.moved
                for pace, v in zip(paces, values, strict=True)
            )
            for name, values in gpu.counters.clusters.items()
        }),
    )  # fmt: skip


def _paced_collectives(collectives: Collectives, paces: Sequence[Pace], step: float) -> Collectives:
    calls = tuple(c.scale_times(paces[c.cluster].time) for c in collectives.calls)
    return replace(collectives.scale_times(step), calls=calls)


def rounded_times(measurement: Measurement, calls: float) -> Measurement:
    """With two digits; launches follow the step's calls, which are so many times as many."""

    def two(value: float | None) -> float | None:
        return None if value is None else rounded(value)

    steps, reference = measurement.step_latency_s, measurement.reference
    return replace(
        measurement,
        step_latency_s=(rounded(median(steps)),) * min(len(steps), 3) if steps else (),
        warmup_latency_s=(),
        profiled_latency_s=(),
        unmatched_calls=None,
        recording_s=None,
        variation=measurement.variation and measurement.variation.coarse(),
        reference=None if reference is None else replace(reference, latency_s=rounded(reference.latency_s)),
        cluster_time_s=tuple(map(two, measurement.cluster_time_s)),
        launches=_launches(measurement.launches, calls),
        framework_time_s=two(measurement.framework_time_s),
        idle_time_s=two(measurement.idle_time_s),
        unexplained_share=two(measurement.unexplained_share),
        coefficient_of_variation=two(measurement.coefficient_of_variation),
        gpu=None if measurement.gpu is None else _rounded_gpu(measurement.gpu, calls),
        collectives=measurement.collectives and measurement.collectives.coarse(),
    )


def _launches(count: float, calls: float) -> float:
    count *= calls
    return float(in_steps(count, 2)) if count >= 1 else rounded(count, 1)


def _rounded_gpu(gpu: GpuActivity, calls: float) -> GpuActivity:
    kernels = (
        replace(k, grid=None, block=None, launches=_launches(k.launches, calls), time_s=rounded(k.time_s))
        for k in gpu.kernels
    )
    counters = {
        name: tuple(None if v is None else rounded(v) for v in values) for name, values in gpu.counters.clusters.items()
    }
    energy_j = gpu.power.energy_j_per_step
    return replace(
        gpu,
        busy_time_s=rounded(gpu.busy_time_s),
        kernels=tuple(kernels),
        duration_log2_us=tuple((b, _launches(n, calls)) for b, n in gpu.duration_log2_us),
        gap_log2_us=tuple((b, _launches(n, calls)) for b, n in gpu.gap_log2_us),
        power=replace(gpu.power, energy_j_per_step=None if energy_j is None else rounded(energy_j)),
        counters=replace(gpu.counters, clusters=counters),
    )
