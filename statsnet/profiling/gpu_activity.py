"""The GPU part of a signature: kernels, pauses and energy of traced steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from statsnet.measure.device_kernels import Dims, busy_s, gaps_s
from statsnet.profiling.kernel_families import kernel_family
from statsnet.profiling.step_trace import StepTrace
from statsnet.signatures.gpu import (
    COUNTERS,
    Counters,
    GpuActivity,
    GpuKernel,
    Power,
    Reason,
    log2_histogram,
)
from statsnet.signatures.public_names import safe_kernel
from statsnet.signatures.vocabulary import OPAQUE_KERNEL

_Key = tuple[int | None, str, Dims | None, Dims | None]
"""Cluster, family, grid and block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel launch of a step: the cluster that launched it, the kernel's family, its seconds. If inputs vary,
    `weight` is the share of steps with such inputs."""

    cluster: int | None
    family: str
    time_s: float
    weight: float = 1.0


def activity_of(traces: Sequence[StepTrace], weights: Sequence[float], power: Power | None) -> GpuActivity | None:
    """GPU activity of an average step, from one profiled step of each trace. The traces' calls must know their
    clusters. None if no kernel ran on a GPU, or if the kernels of some trace are not known."""
    if not all(trace.on_device for trace in traces):
        return None
    launches: list[tuple[_Key, float, float]] = []
    gaps: Counter[float] = Counter()
    for trace, weight in zip(traces, weights, strict=True):
        for place, kernel in trace.on_device:
            family = safe_kernel(kernel_family(kernel.name))
            size = (None, None) if family == OPAQUE_KERNEL else (kernel.grid, kernel.block)
            key = (_cluster(trace, place), family, *size)
            launches.append((key, weight, kernel.elapsed_s))
        for gap_s in gaps_s(kernel for _, kernel in trace.on_device):
            gaps[gap_s] += weight  # type: ignore[assignment]
    busy = [busy_s(kernel for _, kernel in trace.on_device) for trace in traces]
    return GpuActivity(
        busy_time_s=sum(w * s for w, s in zip(weights, busy, strict=True)),
        streams=max(len({kernel.stream for _, kernel in trace.on_device}) for trace in traces),
        **_kernels(launches),
        gap_log2_us=log2_histogram(gaps),
        power=power or Power(missing={"nvml": "off"}),
        counters=no_counters("off"),
    )


def no_counters(reason: Reason) -> Counters:
    """Counters that are all missing for one reason, a word of WHY_MISSING."""
    return Counters(tool=None, clusters={}, missing=dict.fromkeys(COUNTERS, reason))


def activity_alone(launches: Sequence[Launch], counters: Counters) -> GpuActivity:
    """GPU activity of operators that were run one by one: kernels and counters, no pauses and no energy."""
    return GpuActivity(
        busy_time_s=sum(launch.weight * launch.time_s for launch in launches),
        streams=1,
        **_kernels(((x.cluster, safe_kernel(x.family), None, None), x.weight, x.time_s) for x in launches),
        gap_log2_us=(),
        power=Power(missing={"nvml": "off"}),
        counters=counters,
    )


def _kernels(launches: Iterable[tuple[_Key, float, float]]) -> dict[str, Any]:
    """Merge equal launches, each with its share of steps and its seconds, into kernels; and a histogram of durations.
    Names are public ones, because the name of a customer's own kernel may be confidential."""
    merged: dict[_Key, list[float]] = defaultdict(lambda: [0.0, 0.0])
    durations: Counter[float] = Counter()
    for key, weight, time_s in launches:
        merged[key][0] += weight
        merged[key][1] += weight * time_s
        durations[time_s] += weight  # type: ignore[assignment]
    kernels = (
        GpuKernel(cluster=cluster, family=family, grid=grid, block=block, launches=count, time_s=time_s)
        for (cluster, family, grid, block), (count, time_s) in merged.items()
    )
    return {"kernels": tuple(kernels), "duration_log2_us": log2_histogram(durations)}


def launches_of(traces: Sequence[StepTrace], weights: Sequence[float]) -> list[Launch]:
    """The kernels of one step of each trace in sequence, without copies and fills."""
    return [
        Launch(
            cluster=_cluster(trace, place),
            family=kernel_family(kernel.name),
            time_s=kernel.elapsed_s,
            weight=weight,
        )
        for trace, weight in zip(traces, weights, strict=True)
        for place, kernel in trace.on_device
        if not kernel.is_copy
    ]


def _cluster(trace: StepTrace, place: int | None) -> int | None:
    return None if place is None else trace.calls[place].cluster
