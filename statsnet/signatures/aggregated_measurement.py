"""Measurements of one environment added up: what several steps take together (aggregation.py)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from statsnet.signatures.canonical import canonical_json
from statsnet.signatures.gpu import SUM_COUNTERS, Counters, GpuActivity, GpuKernel, Histogram, Power
from statsnet.signatures.measurement import Measurement, ReferenceTime
from statsnet.signatures.merging import sum_of_known

SOURCES = ("profile", "replay", "recording")
"""From the best evidence; a sum is as good as its worst part."""


def scaled_measurement(measurement: Measurement, steps: float) -> Measurement:
    """So many steps as one: times, launches and energy are as many times as large."""
    scaled = measurement.scale_times(steps)
    return replace(
        scaled,
        launches=steps * measurement.launches,
        unmatched_calls=_times(steps, measurement.unmatched_calls),
        recording_s=_times(steps, measurement.recording_s),
        gpu=None if scaled.gpu is None else _scaled_gpu(scaled.gpu, steps),
    )


def summed_measurement(parts: Sequence[Measurement], begins: Sequence[int]) -> Measurement:
    """One step after the other, as one step. `begins` are the indices at which each part's clusters begin.

    The step time is one sample, the sum of the medians: the parts were not measured together. Its coefficient of
    variation is that of a sum of independent times.
    """
    total_s = math.fsum(m.latency_s for m in parts)

    def mean(of: Callable[[Measurement], float | None]) -> float | None:
        return _sum_of_all([_times(m.latency_s / total_s, of(m)) for m in parts])

    deviations = [_times(m.latency_s / total_s, m.coefficient_of_variation) for m in parts]
    return Measurement(
        environment=min((m.environment for m in parts), key=canonical_json),
        step_latency_s=(total_s,),
        warmup_latency_s=(),
        profiled_latency_s=(),
        cluster_time_s=tuple(t for m in parts for t in m.cluster_time_s),
        kernels=tuple(k for m in parts for k in m.kernels),
        kernel_class=tuple(k for m in parts for k in m.kernel_class),
        launches=math.fsum(m.launches for m in parts),
        framework_time_s=_sum_of_all([m.framework_time_s for m in parts]),
        idle_time_s=_sum_of_all([m.idle_time_s for m in parts]),
        unexplained_share=mean(lambda m: m.unexplained_share),
        coefficient_of_variation=None if None in deviations else math.hypot(*(d for d in deviations if d is not None)),
        source=max((m.source for m in parts), key=SOURCES.index),
        gpu=_summed_gpu(parts, begins, mean),
        unmatched_calls=sum_of_known([m.unmatched_calls for m in parts]),
        recording_s=sum_of_known([m.recording_s for m in parts]),
        reference=_reference([m.reference for m in parts], [m.latency_s / total_s for m in parts]),
    )


def _reference(parts: Sequence[ReferenceTime | None], shares: Sequence[float]) -> ReferenceTime | None:
    """One speed for all: brought to another by it, the sum is what the parts are together, each brought there by its
    own. `shares` are of the time. None if they were not timed beside one network."""
    known = [part for part in parts if part is not None and part.latency_s > 0]
    if len(known) < len(parts) or len({part.network for part in known}) > 1:
        return None
    paces = math.fsum(share / part.latency_s for part, share in zip(known, shares, strict=True))
    return ReferenceTime(network=known[0].network, latency_s=1 / paces)


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def _sum_of_all(values: Sequence[float | None]) -> float | None:
    """None if one is not known."""
    known = [v for v in values if v is not None]
    return math.fsum(known) if len(known) == len(values) else None


def _scaled_gpu(gpu: GpuActivity, steps: float) -> GpuActivity:
    """What `scale_times` leaves as it is."""
    counters = {
        name: tuple(_times(steps, v) for v in values) if name in SUM_COUNTERS else values
        for name, values in gpu.counters.clusters.items()
    }
    return replace(
        gpu,
        kernels=tuple(replace(k, launches=steps * k.launches) for k in gpu.kernels),
        duration_log2_us=tuple((b, steps * n) for b, n in gpu.duration_log2_us),
        gap_log2_us=tuple((b, steps * n) for b, n in gpu.gap_log2_us),
        power=replace(gpu.power, energy_j_per_step=_times(steps, gpu.power.energy_j_per_step)),
        counters=replace(gpu.counters, clusters=counters),
    )


def _summed_gpu(
    parts: Sequence[Measurement],
    begins: Sequence[int],
    mean: Callable[[Callable[[Measurement], float | None]], float | None],
) -> GpuActivity | None:
    """None if it is not known of one. `mean` is over the parts' time."""
    gpus = [m.gpu for m in parts if m.gpu is not None]
    if len(gpus) < len(parts):
        return None
    return GpuActivity(
        busy_time_s=math.fsum(g.busy_time_s for g in gpus),
        streams=max(g.streams for g in gpus),
        kernels=tuple(_moved(k, begin) for g, begin in zip(gpus, begins, strict=True) for k in g.kernels),
        duration_log2_us=_histogram([g.duration_log2_us for g in gpus]),
        gap_log2_us=_histogram([g.gap_log2_us for g in gpus]),
        power=_power([g.power for g in gpus], mean),
        counters=_counters([g.counters for g in gpus], [len(m.cluster_time_s) for m in parts]),
    )


def _moved(kernel: GpuKernel, begin: int) -> GpuKernel:
    return kernel if kernel.cluster is None else replace(kernel, cluster=begin + kernel.cluster)


def _histogram(parts: Sequence[Histogram]) -> Histogram:
    sums: dict[int, list[float]] = defaultdict(list)
    for histogram in parts:
        for bin_, count in histogram:
            sums[bin_].append(count)
    return tuple((bin_, math.fsum(counts)) for bin_, counts in sorted(sums.items()))


def _power(parts: Sequence[Power], mean: Callable[[Callable[[Measurement], float | None]], float | None]) -> Power:
    lowest = [p.sm_clock_min_mhz for p in parts]
    highest = [p.temperature_c for p in parts]
    throttled = [p.throttled for p in parts]

    def of(name: str) -> float | None:
        return mean(lambda m: None if m.gpu is None else getattr(m.gpu.power, name))

    return Power(
        energy_j_per_step=_sum_of_all([p.energy_j_per_step for p in parts]),
        power_w=of("power_w"),
        sm_clock_mhz=of("sm_clock_mhz"),
        sm_clock_min_mhz=None if None in lowest else min(v for v in lowest if v is not None),
        temperature_c=None if None in highest else max(v for v in highest if v is not None),
        throttled=None if None in throttled else tuple(sorted({r for t in throttled if t is not None for r in t})),
        missing=dict(sorted(pair for p in parts for pair in p.missing.items())),
    )


def _counters(parts: Sequence[Counters], lengths: Sequence[int]) -> Counters:
    """A counter that one part lacks is not known of its clusters."""
    names = sorted({name for part in parts for name in part.clusters})
    tools = {part.tool for part in parts}
    return Counters(
        tool=tools.pop() if len(tools) == 1 else None,
        clusters={
            name: tuple(
                value
                for part, length in zip(parts, lengths, strict=True)
                for value in part.clusters.get(name, (None,) * length)
            )
            for name in names
        },
        missing=dict(sorted((n, why) for p in parts for n, why in p.missing.items() if n not in names)),
    )
