"""What a GPU did in a step, as pictures: hardware counters, power and clocks, kernels by their length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from statsnet.analysis.database import NamedSignature
from statsnet.reporting.gpu import counter_text, counters_by_part, counters_table, families_of, families_table, reasons
from statsnet.reporting.html.pictures import Picture, Series, bars
from statsnet.reporting.tables import MISSING, table
from statsnet.signatures.gpu import SHARE_COUNTERS, GpuActivity
from statsnet.signatures.measurement import Environment, Measurement
from statsnet.signatures.model import Signature
from statsnet.units import format_quantity

MOST_FAMILIES = 20

MOST_BINS = 60
"""If the shortest and the longest are further apart, powers of two with nothing between them are left out."""


def gpu_pictures(signature: Signature, measurement: Measurement, where: str) -> list[Picture]:
    """None of a step that ran on a CPU. What the file does not hold is said under the first picture."""
    gpu = measurement.gpu
    if gpu is None:
        return []
    missing = " ".join(f"Not in this file: {reason}." for reason in reasons(gpu))
    drawn = [
        _levels(gpu, measurement, where, missing),
        _counters(signature, measurement, where),
        _families(gpu, where),
        _lengths(gpu, where),
    ]
    return [picture for picture in drawn if picture is not None]


def power_picture(measured: Sequence[NamedSignature], where: str) -> Picture | None:
    """Power of several workloads side by side; None unless one of them has it."""
    known = []
    for each in measured:
        gpu = each.signature.measurements[0].gpu
        if gpu is not None and gpu.power.power_w is not None:
            known.append((each.name, gpu.power.power_w, gpu.power.energy_j_per_step))
    if not known:
        return None
    rows = [(name, format_quantity(watts, "W"), format_quantity(joules, "J")) for name, watts, joules in known]
    words = [f"{name}: {watts}, {joules} a step\n{where}" for name, watts, joules in rows]
    return bars(
        "Power",
        f"Mean power of the GPU while steps ran one after the other, {where}.",
        [name for name, *_ in rows],
        [Series(name="power", x=[watts for _, watts, _ in known], shown=words)],
        table("", ("workload", "power", "energy a step"), rows),
        axis="W",
    )


def _levels(gpu: GpuActivity, measurement: Measurement, where: str, missing: str) -> Picture:
    """Busy time, power and clocks, each as a share of the most that there could be."""
    most, power = _most(measurement.environment), gpu.power
    figures = [
        ("busy", gpu.busy_time_s, measurement.latency_s, "s", "of the step"),
        ("power", power.power_w, most.get("power_limit_w"), "W", "the board's limit"),
        ("SM clock", _hertz(power.sm_clock_mhz), _hertz(most.get("sm_clock_max_mhz")), "Hz", "the highest"),
        ("lowest SM clock", _hertz(power.sm_clock_min_mhz), _hertz(most.get("sm_clock_max_mhz")), "Hz", "the highest"),
    ]
    drawn = [(n, v, m, unit, of) for n, v, m, unit, of in figures if v is not None and m]
    words = [
        f"{name}: {format_quantity(value, unit)}, {value / (whole or 1.0):.0%} of {format_quantity(whole, unit)} ({of})"
        f"\n{where}"
        for name, value, whole, unit, of in drawn
    ]
    rows = [
        (name, format_quantity(value, unit), format_quantity(whole, unit) if whole else MISSING)
        for name, value, whole, unit, _ in figures
        if value is not None
    ]
    rows.append(("energy a step", format_quantity(power.energy_j_per_step, "J"), MISSING))
    slowed = "" if power.throttled is None else f" Slowed down: {', '.join(power.throttled) or 'no'}."
    return bars(
        "Power and clocks",
        f"While steps ran one after the other, as a share of the most there could be. {where}.{slowed} {missing}",
        [name for name, *_ in drawn],
        [Series(name="share", x=[100 * value / (whole or 1.0) for _, value, whole, *_ in drawn], shown=words)],
        table("", ("", "here", "most"), rows),
        axis="%",
    )


def _most(environment: Environment) -> Mapping[str, float]:
    return {name: value for name, value in (environment.get("gpu") or {}).items() if isinstance(value, int | float)}


def _hertz(megahertz: float | None) -> float | None:
    return None if megahertz is None else 1e6 * megahertz


def _counters(signature: Signature, measurement: Measurement, where: str) -> Picture | None:
    """Counters that are shares, over the step and over each of the longest categories."""
    parts = counters_by_part(signature, measurement)
    names = [name for name in SHARE_COUNTERS if name in parts["step"]]
    if not names:
        return None
    series = [
        Series(
            name=part,
            x=[100 * values[name] if name in values else None for name in names],
            shown=[f"{part}: {name} {counter_text(name, values.get(name))}\n{where}" for name in names],
        )
        for part, values in parts.items()
    ]
    return bars(
        "Hardware counters",
        f"Means over kernels' time, of the step and of its longest categories, {where}. Rates are in the table alone.",
        names,
        series,
        counters_table(parts),
        axis="%",
    )


def _families(gpu: GpuActivity, where: str) -> Picture | None:
    families = families_of(gpu)[:MOST_FAMILIES]
    total_s = sum(kernel.time_s for kernel in gpu.kernels)
    if not total_s:
        return None
    shares = {family: sum(k.time_s for k in kernels) / total_s for family, kernels in families}
    launches = {family: sum(k.launches for k in kernels) for family, kernels in families}
    words = [f"{n}: {share:.1%} of kernels' time, {launches[n]:.4g} launches\n{where}" for n, share in shares.items()]
    return bars(
        "Time by kernel family",
        f"Share of the kernels' time in a step, {where}.",
        [*shares],
        [Series(name="share", x=[100 * share for share in shares.values()], shown=words)],
        families_table(gpu),
        axis="% of kernels' time",
    )


def _lengths(gpu: GpuActivity, where: str) -> Picture | None:
    """How long kernels and copies, and the pauses between them, are: how many of a step fall between powers of two."""
    columns = {"kernels and copies": dict(gpu.duration_log2_us), "pauses": dict(gpu.gap_log2_us)}
    found = sorted({bin_ for counts in columns.values() for bin_ in counts})
    if not found:
        return None
    whole = range(found[0], found[-1] + 1)
    bins: Sequence[int] = whole if len(whole) <= MOST_BINS else found
    names = [f"{2.0**bin_:.3g} to {2.0 ** (bin_ + 1):.3g} µs" for bin_ in bins]
    series = [
        Series(
            name=kind,
            x=[counts.get(bin_, 0.0) for bin_ in bins],
            shown=[
                f"{counts.get(bin_, 0.0):.4g} {kind} a step of {name}\n{where}"
                for bin_, name in zip(bins, names, strict=True)
            ],
        )
        for kind, counts in columns.items()
    ]
    rows = [
        (name, *(f"{counts.get(bin_, 0.0):.4g}" for counts in columns.values()))
        for bin_, name in zip(bins, names, strict=True)
    ]
    return bars(
        "Launches and gaps",
        f"How many kernels and copies of a step are so long, and how many pauses between them, {where}.",
        names,
        series,
        table("", ("", *columns), rows),
        axis="number in a step",
    )
