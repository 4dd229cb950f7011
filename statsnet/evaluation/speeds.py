"""At what speeds the steps of one result ran: at one, as a median supposes, or at two, or ever slower; and whether the
clock that timed them can be believed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

import numpy as np

from statsnet.errors import MeasurementError
from statsnet.signatures.intervals import geometric_mean, process_median_s
from statsnet.signatures.timing import Timing
from statsnet.units import format_duration

APART = 0.02
"""Two speeds that differ less, and a drift that is less, change no verdict."""

SHARE = 0.1
"""A speed at which fewer of the steps run is no second speed: a neighbour disturbed some steps."""

VALLEY, VALLEY_OF_FEW = 0.7, 2.0
"""Two speeds are apart if between them the density falls below VALLEY - VALLEY_OF_FEW / √n of the lower peak. Of
samples from one peak (normal, exponential, Student's t with 2 degrees of freedom), 4 % have such a valley if n is 100,
1 % if 400."""

BANDWIDTH = 0.65
"""The density is estimated with this bandwidth, times the spread, times n^(-1/5). Silverman's 0.9 would join two
speeds."""

MANY = 20
"""From so many samples on, a distribution has a form. Fewer are judged by the gap between them."""

GAP = 0.7
"""Few samples are of two groups if one gap takes this share of their range."""

OUT_OF_LINE, OUT_OF_LINE_DEVIATIONS = 0.05, 6.0
"""A process is out of line if it is further from the median process than this share and than so many standard
deviations, which the median of all distances estimates."""

STILL = 10
"""So many steps that took exactly the same time were timed by a clock that does not move with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSpeeds:
    """The median time of the fast and of the slow samples, in seconds, and the share of the slow ones."""

    fast_s: float
    slow_s: float
    slow_share: float

    @property
    def range_s(self) -> tuple[float, float]:
        """The fastest and the slowest time."""
        return self.fast_s, self.slow_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The median of the first third of some samples, and of the last, in seconds."""

    early_s: float
    late_s: float

    @property
    def range_s(self) -> tuple[float, float]:
        """The fastest and the slowest time."""
        return min(self.early_s, self.late_s), max(self.early_s, self.late_s)

    @property
    def change(self) -> float:
        """By how much the time changed, as a share of the early time."""
        return self.late_s / self.early_s - 1


@dataclass(frozen=True, slots=True)
class Note:
    """What was noticed: what a result does (`runs at two speeds`), and the same with its figures."""

    does: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """The range of the speeds at which a step ran, as times in seconds. With one speed both are the step's time.

    `two` is there if the steps of most processes have two speeds, so that their median stands for neither. `clock` says
    why the times are no times.
    """

    fastest_s: float
    slowest_s: float
    two: TwoSpeeds | None
    notes: tuple[Note, ...]
    clock: str | None

    @property
    def several(self) -> bool:
        """Whether a step has a range of times rather than one."""
        return self.slowest_s > self.fastest_s * (1 + APART)


def speeds_of(processes: Sequence[Timing]) -> Speeds:
    """Judge the samples within each process, and the processes' medians, in the order in which they ran.

    Raises MeasurementError if there is no process, or if one has no valid times.
    """
    if not processes:
        raise MeasurementError("there is no process to take a time from", hint="measure it again")
    medians = [process_median_s(process) for process in processes]
    within = [_of_samples(process.latency_s, MANY) for process in processes]
    ranges = [found.range_s if found else (middle, middle) for found, middle in zip(within, medians, strict=True)]
    fastest_s, slowest_s = (geometric_mean([pair[side] for pair in ranges]) for side in (0, 1))
    notes = _notes_within(within)
    between = _of_samples(medians, 4)
    if between is not None:
        fastest_s, slowest_s = min(fastest_s, between.range_s[0]), max(slowest_s, between.range_s[1])
        notes.append(_note_between(between))
    elif odd := out_of_line(medians):
        usual = median(medians)
        notes += [
            Note("has a process out of line", _note_out_of_line(number, medians[number] / usual)) for number in odd
        ]
    if tick_s := max((_tick_s(process.latency_s) for process in processes), default=0.0):
        fastest_s, slowest_s = max(fastest_s - tick_s / 2, fastest_s / 2), slowest_s + tick_s / 2
        notes.append(Note("has a coarse clock", f"the clock is coarse: it moves by {format_duration(tick_s)}"))
    return Speeds(
        fastest_s=fastest_s,
        slowest_s=slowest_s,
        two=_of_most(within),
        notes=tuple(notes),
        clock=_still(processes),
    )


def _of_samples(times: Sequence[float], fewest: int) -> TwoSpeeds | Drift | None:
    """What is odd about samples. Drift is looked for first: a time that grows by a jump has two speeds as well, but the
    order explains them."""
    return None if len(times) < fewest else drift(times) or two_speeds(times)


def two_speeds(times: Sequence[float]) -> TwoSpeeds | None:
    """The two groups that samples form, or None if they form one.

    Many samples: a kernel estimate of the density of log(time), with the spread of Silverman (1986, eq. 3.31), has a
    valley between two peaks, and at least SHARE of the samples lie on either side. Few: one gap takes most of their
    range, and two or more lie on either side.
    """
    ordered = np.sort(np.asarray(times, dtype=float))
    logs = np.log(ordered)
    cut = _valley(logs) if len(logs) >= MANY else _gap(logs)
    if cut is None:
        return None
    fast, slow = ordered[:cut], ordered[cut:]
    fast_s, slow_s = float(np.median(fast)), float(np.median(slow))
    tick_s = _tick_s(times)
    if slow_s < fast_s * (1 + APART) or slow_s - fast_s < 2.5 * tick_s:
        return None
    return TwoSpeeds(fast_s=fast_s, slow_s=slow_s, slow_share=len(slow) / len(ordered))


def _valley(logs: np.ndarray) -> int | None:
    """How many sorted samples lie left of the deepest valley, or None without one."""
    n = len(logs)
    low, high = np.quantile(logs, [0.25, 0.75])
    spreads = [spread for spread in (float(np.std(logs)), float(high - low) / 1.34) if spread > 0]
    if not spreads:
        return None
    width = BANDWIDTH * min(spreads) * n**-0.2
    kept = np.quantile(logs, (np.arange(min(n, 500)) + 0.5) / min(n, 500))  # of many samples, 500 have the same form
    ends = kept[int(0.025 * len(kept))], kept[len(kept) - 1 - int(0.025 * len(kept))]
    grid = np.linspace(ends[0] - width, ends[1] + width, 400)
    width = max(width, 2 * float(grid[1] - grid[0]))
    density = np.exp(-0.5 * ((grid[:, None] - kept[None, :]) / width) ** 2).sum(axis=1)
    below, above = np.maximum.accumulate(density), np.maximum.accumulate(density[::-1])[::-1]
    depth = density / np.minimum(below, above)
    cuts = np.searchsorted(logs, grid)
    inside = (cuts >= SHARE * n) & (cuts <= (1 - SHARE) * n)
    if not inside.any():
        return None
    deepest = int(np.argmin(np.where(inside, depth, np.inf)))
    return int(cuts[deepest]) if depth[deepest] < VALLEY - VALLEY_OF_FEW / math.sqrt(n) else None


def _gap(logs: np.ndarray) -> int | None:
    gaps = np.diff(logs)
    if len(gaps) < 3 or logs[-1] == logs[0]:
        return None
    widest = int(np.argmax(gaps)) + 1
    is_wide = gaps[widest - 1] > GAP * (logs[-1] - logs[0])
    return widest if is_wide and 2 <= widest <= len(logs) - 2 else None


def drift(times: Sequence[float]) -> Drift | None:
    """Whether samples grow or shrink with time: by Kendall's rank correlation with their order (many samples in up to
    30 successive groups, each of which counts as its median), and by more than APART from first to last."""
    from scipy.stats import kendalltau

    if len(times) < 5:
        return None
    parts = np.array_split(np.asarray(times, dtype=float), min(30, len(times)))
    values = [float(np.median(part)) for part in parts]
    third = max(1, len(values) // 3)
    early_s, late_s = median(values[:third]), median(values[-third:])
    if abs(math.log(late_s / early_s)) < APART:
        return None
    tau = kendalltau(range(len(values)), values)
    is_certain = tau.pvalue < (0.02 if len(values) < MANY else 0.001)
    return Drift(early_s=early_s, late_s=late_s) if is_certain and abs(tau.statistic) > 0.3 else None


def out_of_line(medians_s: Sequence[float]) -> list[int]:
    """The processes (from 0) whose medians are far from that of the others; none of fewer than three."""
    if len(medians_s) < 3:
        return []
    logs = [math.log(time) for time in medians_s]
    middle = median(logs)
    distances = [abs(log - middle) for log in logs]
    limit = max(OUT_OF_LINE, OUT_OF_LINE_DEVIATIONS * 1.4826 * median(distances))
    return [number for number, distance in enumerate(distances) if distance > limit]


def _tick_s(times: Sequence[float]) -> float:
    """How far a coarse clock moves at a time: all samples are multiples of it, and it is a notable part of a step. 0
    for a clock that is not coarse."""
    distinct = sorted(set(times))
    if len(times) < MANY or not 3 <= len(distinct) <= len(times) / 4:
        return 0.0
    tick = min(b - a for a, b in pairwise(distinct))
    is_multiple = all(abs(time / tick - round(time / tick)) < 0.05 for time in distinct)
    return round(tick, 12) if is_multiple and tick > 0.005 * median(times) else 0.0


def _still(processes: Sequence[Timing]) -> str | None:
    for process in processes:
        if len(process.latency_s) >= STILL and len(set(process.latency_s)) == 1:
            return f"its clock stands still: {len(process.latency_s)} steps took exactly the same time"
    return None


def _of_most(within: Sequence[TwoSpeeds | Drift | None]) -> TwoSpeeds | None:
    """The two speeds of the processes, if at least half of them have two."""
    found = [each for each in within if isinstance(each, TwoSpeeds)]
    return _mean(found) if found and len(found) * 2 >= len(within) else None


def _mean(twos: Sequence[TwoSpeeds]) -> TwoSpeeds:
    return TwoSpeeds(
        fast_s=geometric_mean([two.fast_s for two in twos]),
        slow_s=geometric_mean([two.slow_s for two in twos]),
        slow_share=fmean(two.slow_share for two in twos),
    )


def _notes_within(within: Sequence[TwoSpeeds | Drift | None]) -> list[Note]:
    def of(count: int) -> str:
        return f" in {count} of {len(within)} processes" if len(within) > 1 else ""

    notes = []
    if twos := [found for found in within if isinstance(found, TwoSpeeds)]:
        mean = _mean(twos)
        text = f"{format_duration(mean.fast_s)} and {format_duration(mean.slow_s)} ({mean.slow_share:.0%} of steps)"
        notes.append(Note("runs at two speeds", f"the steps run at two speeds{of(len(twos))}: {text}"))
    if drifts := [found for found in within if isinstance(found, Drift)]:
        change = geometric_mean([1 + each.change for each in drifts]) - 1
        text = f"{change:+.1%} from the first third of the steps to the last"
        notes.append(Note("drifts", f"the step time drifts{of(len(drifts))}: {text}"))
    return notes


def _note_between(found: TwoSpeeds | Drift) -> Note:
    if isinstance(found, TwoSpeeds):
        text = f"{format_duration(found.fast_s)} and {format_duration(found.slow_s)}"
        return Note("runs at two speeds", f"the processes run at two speeds: {text}")
    text = f"{found.change:+.1%} from the first third of the processes to the last"
    return Note("drifts", f"the machine drifts: {text}")


def _note_out_of_line(number: int, ratio: float) -> str:
    took = f"process {number + 1} took {ratio:.3g} times as long as the median process"
    return f"{took}: see what ran beside it, or measure again"
