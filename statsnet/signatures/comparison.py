"""How near a proxy is to its target, characteristic by characteristic."""

from __future__ import annotations

import math
from dataclasses import dataclass

from statsnet.signatures.documents import Characteristic, Distances
from statsnet.signatures.gpu import COUNTERS
from statsnet.signatures.model import Signature
from statsnet.signatures.statistics import earth_movers_distance, total_variation
from statsnet.signatures.target import Target

_FIGURES = (
    ("flops_per_s", "rate", "FLOP/s", "flops_per_s"),
    ("bytes_per_s", "rate", "B/s", "bytes_per_s"),
    ("launches_per_s", "rate", "1/s", "launches_per_s"),
    ("time_per_launch", "rate", "s", "time_per_launch_s"),
    ("arithmetic_intensity", "rate", "FLOP/B", "arithmetic_intensity"),
    ("operator_share", "time", "share of step", "operator_share"),
    ("framework_share", "time", "share of step", "framework_share"),
    ("idle_share", "time", "share of step", "idle_share"),
    ("peak_memory", "memory", "B", "largest_peak_bytes"),
)
"""Name, group, unit, and the property of a target."""

_OF_TIME = "share of operator time"
_COUNTER_UNITS = {"ipc": "instructions/cycle", "dram_bytes": "B/s"}


SAME_WORK = 0.01
"""A model whose FLOPs differ from its signature's by more than this share is another version of it."""


def same_work(a: Signature, b: Signature) -> bool:
    """Whether two signatures can be of one model in one size, by the FLOPs of a step."""
    return math.isclose(a.flops_per_step, b.flops_per_step, rel_tol=SAME_WORK)


def characteristics(target: Target, achieved: Target) -> list[Characteristic]:
    """Rows of fit.json."""
    rows = [
        _row(name, group, unit, getattr(target, of_target), getattr(achieved, of_target))
        for name, group, unit, of_target in _FIGURES
    ]
    if target.power_w is not None or achieved.power_w is not None:
        rows.append(_row("power", "rate", "W", target.power_w, achieved.power_w))
    wanted_counters, found_counters = target.counters, achieved.counters
    for name in COUNTERS:
        if name in wanted_counters or name in found_counters:
            unit = _COUNTER_UNITS.get(name, "share")
            rows.append(_row(name, "counter", unit, wanted_counters.get(name), found_counters.get(name)))
    for group in ("category", "kernel_class", "phase"):
        wanted = getattr(target, f"{group}_shares")
        reached = getattr(achieved, f"{group}_shares")
        for name in sorted({*wanted, *reached}, key=lambda n: (-wanted.get(n, 0.0), n)):
            rows.append(_row(name, group, _OF_TIME, wanted.get(name, 0.0), reached.get(name, 0.0)))
    wanted_bins, found_bins = target.intensity_histogram, achieved.intensity_histogram
    for bin_ in sorted({*wanted_bins, *found_bins}):
        shares = wanted_bins.get(bin_, 0.0), found_bins.get(bin_, 0.0)
        rows.append(_row(f"2^{bin_} FLOP/B", "intensity", _OF_TIME, *shares))
    return rows


def summary(target: Target, achieved: Target) -> Distances:
    """The distances that the fit is judged by. Shares in points are differences times 100."""
    return Distances(
        category_total_variation=total_variation(target.category_shares, achieved.category_shares),
        kernel_class_total_variation=total_variation(target.kernel_class_shares, achieved.kernel_class_shares),
        phase_total_variation=total_variation(target.phase_shares, achieved.phase_shares),
        intensity_earth_movers_distance_log2=earth_movers_distance(
            target.intensity_histogram, achieved.intensity_histogram
        ),
        flops_per_s_error=_relative(target.flops_per_s, achieved.flops_per_s),
        bytes_per_s_error=_relative(target.bytes_per_s, achieved.bytes_per_s),
        launches_per_s_ratio=_ratio(target.launches_per_s, achieved.launches_per_s),
        idle_share_target=target.idle_share,
        idle_share_achieved=achieved.idle_share,
        framework_share_target=target.framework_share,
        framework_share_achieved=achieved.framework_share,
        formula_coverage_target=target.coverage,
        formula_coverage_achieved=achieved.coverage,
    )


CATEGORY_BAR, KERNEL_CLASS_BAR, RATE_BAR = 0.03, 0.05, 0.05
"""A fit is good if no distance is larger: shares in points ÷ 100, FLOP/s and bytes/s relative to the target's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A distance that decides whether a fit is good, and its bar. What the target does not have is not missed."""

    name: str
    distance: float | None
    bar: float
    is_rate: bool = False

    @property
    def is_missed(self) -> bool:
        return abs(self.distance or 0.0) > self.bar


def judged(distances: Distances) -> tuple[Judged, ...]:
    """Shares, then rates."""
    d = distances
    return (
        Judged(name="categories", distance=d.category_total_variation, bar=CATEGORY_BAR),
        Judged(name="kernel classes", distance=d.kernel_class_total_variation, bar=KERNEL_CLASS_BAR),
        Judged(name="FLOP/s", distance=d.flops_per_s_error, bar=RATE_BAR, is_rate=True),
        Judged(name="bytes/s", distance=d.bytes_per_s_error, bar=RATE_BAR, is_rate=True),
    )


def is_good(distances: Distances) -> bool:
    """Whether a fit meets all bars."""
    return not any(each.is_missed for each in judged(distances))


def shares_are_good(distances: Distances) -> bool:
    """Whether a fit meets the bars of categories and of kernel classes."""
    return not any(each.is_missed for each in judged(distances) if not each.is_rate)


def _row(name: str, group: str, unit: str, target: float | None, achieved: float | None) -> Characteristic:
    return Characteristic(name=name, group=group, unit=unit, target=target, achieved=achieved)


def _ratio(target: float, achieved: float) -> float | None:
    return achieved / target if target > 0 else None


def _relative(target: float, achieved: float) -> float | None:
    ratio = _ratio(target, achieved)
    return None if ratio is None else ratio - 1.0
