"""How long each operator takes, by several profiled steps, some of which others disturbed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import fmean, median

from statsnet.profiling.timeline import Timeline
from statsnet.signatures.statistics import faster_half


def quiet_steps(timelines: Sequence[Timeline]) -> list[Timeline]:
    """The faster half of the steps."""
    slowest_s = max(faster_half([line.step_s for line in timelines]))
    return [line for line in timelines if line.step_s <= slowest_s]


def operator_times_s(
    timelines: Sequence[Timeline], waiting: Collection[int] = (), beside: Collection[int] = ()
) -> list[float | None]:
    """Seconds of each call; None of those that no step shows.

    Each has the mean of the faster half of its own times: others disturb one operator in one step and another in the
    next, so that few steps are undisturbed as a whole. Of many times, each at its best, the sum is less than any step.
    So all are scaled by one factor, which makes them take as long together as in the faster half of the steps. Calls
    that are `waiting` for other processes, in each step another one, have their median in those steps. Those `beside`
    the others, as what empties the caches, have no part in the factor.
    """
    quiet = quiet_steps(timelines)
    times_s: list[float | None] = []
    for index in range(len(timelines[0].op_time_s)):
        samples = _samples_s(quiet if index in waiting else timelines, index) or _samples_s(timelines, index)
        best = median if index in waiting else undisturbed_s
        times_s.append(best(samples) if samples else None)
    apart = {*waiting, *beside}
    scaled = {i: time_s for i, time_s in enumerate(times_s) if time_s is not None and i not in apart}
    factor = median(_slower(line, scaled) for line in quiet)
    return [time_s * factor if time_s is not None and i in scaled else time_s for i, time_s in enumerate(times_s)]


def _samples_s(timelines: Sequence[Timeline], index: int) -> list[float]:
    return [time_s for line in timelines if (time_s := line.op_time_s[index]) is not None]


def undisturbed_s(times_s: Sequence[float]) -> float:
    """An operator's time, by those in several steps."""
    return fmean(faster_half(times_s))


def _slower(line: Timeline, times_s: dict[int, float]) -> float:
    """How many times as long as these the calls took that this step shows."""
    shown = {i: taken_s for i in times_s if (taken_s := line.op_time_s[i]) is not None}
    at_best_s = sum(times_s[i] for i in shown)
    return sum(shown.values()) / at_best_s if at_best_s > 0 else 1.0
