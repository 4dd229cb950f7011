"""From what ran on a GPU during traced steps to a signature's record of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from statsnet.profiling.device_kernels import Dims, Kernel, busy_s, gaps_s
from statsnet.profiling.kernels import kernel_family
from statsnet.profiling.trace import StepTrace
from statsnet.signatures.gpu import COUNTERS, Counters, GpuActivity, GpuKernel, Power, log2_histogram
from statsnet.signatures.privacy import safe_kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A kernel in its order within a step: the cluster that launched it, its family, its seconds; `weight` is the share
    of such steps, where inputs vary."""

    cluster: int | None
    family: str
    time_s: float
    weight: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def activity_of(
    traces: Sequence[StepTrace], weights: Sequence[float], power: Power | None = None
) -> GpuActivity | None:
    """Of an average step, from one profiled step of each trace, whose calls know their clusters; None where nothing
    was seen to run on a device."""
    if not any(trace.on_device for trace in traces):
        return None
    rows: dict[tuple[int | None, str, Dims | None, Dims | None], list[float]] = defaultdict(
        lambda: [0.0, 0.0]
    )
    durations: Counter[float] = Counter()
    gaps: Counter[float] = Counter()
    for trace, weight in zip(traces, weights, strict=True):
        for place, kernel in trace.on_device:
            row = rows[_cluster(trace, place), _family(kernel), kernel.grid, kernel.block]
            row[0] += weight
            row[1] += weight * kernel.elapsed_s
            durations[kernel.elapsed_s] += weight  # type: ignore[assignment]
        for gap_s in gaps_s(kernel for _, kernel in trace.on_device):
            gaps[gap_s] += weight  # type: ignore[assignment]
    busy = [busy_s(kernel for _, kernel in trace.on_device) for trace in traces]
    return GpuActivity(
        busy_time_s=sum(w * s for w, s in zip(weights, busy, strict=True)),
        streams=max(len({kernel.stream for _, kernel in trace.on_device}) for trace in traces),
        kernels=tuple(
            GpuKernel(cluster=cluster, family=family, grid=grid, block=block, launches=count, time_s=time_s)
            for (cluster, family, grid, block), (count, time_s) in rows.items()
        ),
        duration_log2_us=log2_histogram(durations),
        gap_log2_us=log2_histogram(gaps),
        power=power or Power(missing={"nvml": "off"}),
        counters=no_counters("off"),
    )


def no_counters(reason: str) -> Counters:
    """All missing, for a word of WHY_MISSING."""
    return Counters(tool=None, clusters={}, missing=dict.fromkeys(COUNTERS, reason))


def activity_alone(launches: Sequence[Launch], counters: Counters) -> GpuActivity:
    """Of operators that were run one by one: their kernels and counters, and neither pauses nor energy."""
    rows: dict[tuple[int | None, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for launch in launches:
        row = rows[launch.cluster, safe_kernel(launch.family)]
        row[0] += launch.weight
        row[1] += launch.weight * launch.time_s
    return GpuActivity(
        busy_time_s=sum(launch.weight * launch.time_s for launch in launches),
        streams=1,
        kernels=tuple(
            GpuKernel(cluster=cluster, family=family, grid=None, block=None, launches=count, time_s=time_s)
            for (cluster, family), (count, time_s) in rows.items()
        ),
        duration_log2_us=log2_histogram(Counter(launch.time_s for launch in launches)),
        gap_log2_us=(),
        power=Power(missing={"nvml": "off"}),
        counters=counters,
    )


def launches_of(traces: Sequence[StepTrace], weights: Sequence[float]) -> list[Launch]:
    """The kernels of one step of each trace, one after the other, without copies and fills."""
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


def _family(kernel: Kernel) -> str:
    # A customer's own kernel may bear a name that must not leave the house.
    return safe_kernel(kernel_family(kernel.name))
