"""What a GPU did in a step, as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from rich.table import Table

from statsnet.reporting.tables import MISSING, Report, notes, pairs, percent, table
from statsnet.signatures.gpu import COUNTERS, RATE_COUNTERS, SUM_COUNTERS, GpuActivity, GpuKernel, Histogram, Power
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Signature
from statsnet.signatures.target import target_of
from statsnet.signatures.target_cluster import TargetCluster, counters_over
from statsnet.units import format_bytes, format_duration, format_quantity, plural

SHOWN_FAMILIES = 10
SHOWN_CATEGORIES = 4


def gpu_report(signature: Signature, measurement: Measurement) -> Report:
    """Kernels, power and counters; nothing of a step that ran on a CPU."""
    gpu = measurement.gpu
    if gpu is None:
        return []
    report: Report = [pairs("On the device", _figures(gpu, measurement.latency_s)), families_table(gpu)]
    if gpu.counters.clusters:
        report.append(counters_table(counters_by_part(signature, measurement)))
    return report + notes("not known of the device:", reasons(gpu))


def _figures(gpu: GpuActivity, latency_s: float) -> list[tuple[str, str]]:
    launches, pauses = sum(k.launches for k in gpu.kernels), sum(count for _, count in gpu.gap_log2_us)
    power = gpu.power
    throttled = MISSING if power.throttled is None else ", ".join(power.throttled) or "no"
    return [
        ("busy", f"{percent(gpu.busy_time_s / latency_s)} of the step, on {plural(gpu.streams, 'stream')}"),
        ("kernels and copies", f"{launches:.4g} a step, {_middle(gpu.duration_log2_us)} each (median)"),
        ("pauses between them", f"{pauses:.4g} a step, {_middle(gpu.gap_log2_us)} each (median)"),
        ("energy", f"{format_quantity(power.energy_j_per_step, 'J')} a step, {format_quantity(power.power_w, 'W')}"),
        (
            "SM clock",
            MISSING
            if power.sm_clock_mhz is None
            else f"{power.sm_clock_mhz:.0f} MHz (lowest {_lowest(power)}), slowed down: {throttled}",
        ),
    ]  # fmt: skip


def _lowest(power: Power) -> str:
    return MISSING if power.sm_clock_min_mhz is None else f"{power.sm_clock_min_mhz:.0f}"


def _middle(histogram: Histogram) -> str:
    """The bin of the median, as `2 to 4 µs`. Kernels of a graph follow each other within nanoseconds."""
    bin_ = _median(histogram)
    if bin_ is None:
        return MISSING
    return "under 1 µs" if bin_ < 0 else f"{2.0**bin_:g} to {2.0 ** (bin_ + 1):g} µs"


def _median(counted: Iterable[tuple[int, float]]) -> int | None:
    """The median of values, each with how often it occurs."""
    known = sorted(counted)
    left = sum(count for _, count in known) / 2
    for value, count in known:
        left -= count
        if left <= 0:
            return value
    return None


def families_of(gpu: GpuActivity) -> list[tuple[str, list[GpuKernel]]]:
    """Kernels by family, those that take most time first."""
    of_family: dict[str, list[GpuKernel]] = defaultdict(list)
    for kernel in gpu.kernels:
        of_family[kernel.family].append(kernel)
    return sorted(of_family.items(), key=lambda item: -sum(k.time_s for k in item[1]))


def families_table(gpu: GpuActivity) -> Table:
    total = sum(k.time_s for k in gpu.kernels) or 1.0
    return table(
        "Kernels by family",
        ("family", "share", "time", "launches", "blocks", "threads in one"),
        (
            (
                family,
                percent(sum(k.time_s for k in kernels) / total),
                format_duration(sum(k.time_s for k in kernels)),
                f"{sum(k.launches for k in kernels):.4g}",
                _usual([(_volume(k.grid), k.launches) for k in kernels]),
                _usual([(_volume(k.block), k.launches) for k in kernels]),
            )
            for family, kernels in families_of(gpu)[:SHOWN_FAMILIES]
        ),
    )


def _volume(dims: tuple[int, int, int] | None) -> int | None:
    return None if dims is None else dims[0] * dims[1] * dims[2]


def _usual(counted: list[tuple[int | None, float]]) -> str:
    """The median over launches."""
    usual = _median((value, count) for value, count in counted if value is not None)
    return MISSING if usual is None else f"{usual:,}"


def counters_by_part(signature: Signature, measurement: Measurement) -> dict[str, Mapping[str, float]]:
    """Hardware counters by name: over the whole `step`, then over each of the categories that take the most time."""
    target = target_of(signature, measurement)
    by_category: dict[str, list[TargetCluster]] = defaultdict(list)
    for cluster in target.clusters:
        by_category[cluster.category].append(cluster)
    shown = sorted(target.category_shares, key=lambda name: -target.category_shares[name])[:SHOWN_CATEGORIES]
    return {"step": target.counters, **{name: counters_over(by_category[name]) for name in shown}}


def counters_table(parts: Mapping[str, Mapping[str, float]]) -> Table:
    rows = [
        (name, *(counter_text(name, values.get(name)) for values in parts.values()))
        for name in COUNTERS
        if name in parts["step"]
    ]
    return table("Hardware counters", ("counter", *parts), rows)


def counter_text(name: str, value: float | None) -> str:
    """A counter's value with its unit."""
    if value is None:
        return MISSING
    if name in SUM_COUNTERS:
        return f"{format_bytes(value)}/s"
    return f"{value:.2f}" if name in RATE_COUNTERS else percent(value)


_REASONS = {
    "off": "not asked for",
    "not_recorded": "the recording does not hold it",
    "not_installed": "its tool is not installed (Nsight Compute; nvidia-ml-py)",
    "not_permitted": "the driver keeps it from this user",
    "not_supported": "the device does not give it",
    "mismatch": "other kernels ran when they were counted than when they were timed",
    "failed": "it failed",
}


def reasons(gpu: GpuActivity) -> list[str]:
    """What is not known, and why: one line for each reason, not for each counter."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for name, why in {**gpu.power.missing, **gpu.counters.missing}.items():
        by_reason[why].append(name)
    return [
        f"{'all counters' if len(names) >= len(COUNTERS) else ', '.join(names)}: {_REASONS[why]}"
        for why, names in by_reason.items()
    ]
