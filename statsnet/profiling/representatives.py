"""Which of a workload's inputs are profiled where their shapes differ: a few that stand for all of them.

All distinct inputs (at most MOST_COUNTED) are counted, without timing them, and put in the order of their work. That
order is cut into parts of about equal numbers of steps, and each part is represented by the input whose work is nearest
to the part's mean. The order in which inputs are given changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

from statsnet.profiling.capture import OpCall
from statsnet.profiling.costs import cost_of
from statsnet.signatures.model import InputSample

T = TypeVar("T")

FEWEST = 8
"""So many distinct inputs are all profiled. Of more, at least so many are."""

MOST_COUNTED = 64
PRECISE_WORK = 0.01
"""Representatives are added until their mean FLOPs and bytes are those of all counted inputs within this share."""

Group = tuple[int, ...]
"""Numbers of the steps whose inputs have the same shapes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """FLOPs of a step, and bytes read and written, as far as there are formulas."""

    flops: float
    moved: float

    @classmethod
    def of(cls, calls: Sequence[OpCall]) -> Work:
        costs = [cost for call in calls if (cost := cost_of(call.op, call.args, call.outputs)) is not None]
        return cls(flops=sum(c.flops for c in costs), moved=sum(c.bytes_read + c.bytes_written for c in costs))

    @classmethod
    def mean(cls, steps: Sequence[Work]) -> Work:
        return cls(flops=fmean(w.flops for w in steps), moved=fmean(w.moved for w in steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class Representative:
    """Steps of one set of shapes, and how many steps they stand for: their own and those of similar work."""

    steps: Group
    stands_for: int


@dataclass(frozen=True, slots=True)
class _Counted:
    group: Group
    steps: int
    work: Work


def choose(
    groups: Sequence[Sequence[int]], size: Callable[[int], int], count: Callable[[int], Work]
) -> tuple[list[Representative], InputSample | None]:
    """Representatives of groups of steps with equal shapes, and what the signature says of the choice (nothing if there
    is one group). `size` gives the bytes of a step's inputs, `count` runs a step and counts its work."""
    if len(groups) <= FEWEST:
        chosen = [Representative(steps=tuple(group), stands_for=len(group)) for group in groups]
        return chosen, _sample(chosen, len(groups), 0.0) if len(groups) > 1 else None
    by_size = sorted((tuple(group) for group in groups), key=lambda group: (size(group[0]), group))
    thinned = [_middle(part) for part in _parts([(g, len(g)) for g in by_size], MOST_COUNTED)]
    counted = [_Counted(group, steps, count(group[0])) for group, steps in thinned]
    mean = _mean(counted)
    ordered = sorted(counted, key=lambda c: (_relative(c.work, mean), c.group))
    number = FEWEST
    while True:
        parts = _parts([(c, c.steps) for c in ordered], number)
        chosen_ones = _nearest([[c for c, _ in part] for part in parts], mean)
        error = _error(chosen_ones, mean)
        if error <= PRECISE_WORK or number >= len(ordered):
            break
        number *= 2
    chosen = [Representative(steps=c.group, stands_for=c.steps) for c in chosen_ones]
    return chosen, _sample(chosen, len(groups), error)


def _sample(chosen: Sequence[Representative], distinct: int, error: float) -> InputSample:
    return InputSample(distinct=distinct, stands_for=tuple(c.stands_for for c in chosen), work_error=error)


def _parts(items: Sequence[tuple[T, int]], number: int) -> list[list[tuple[T, int]]]:
    """Successive items, each with the steps it stands for, in at most `number` parts of about equally many steps."""
    total, seen = sum(steps for _, steps in items), 0
    parts: dict[int, list[tuple[T, int]]] = {}
    for item, steps in items:
        parts.setdefault(min(int((seen + steps / 2) * number / total), number - 1), []).append((item, steps))
        seen += steps
    return list(parts.values())


def _middle(part: Sequence[tuple[Group, int]]) -> tuple[Group, int]:
    return part[len(part) // 2][0], sum(steps for _, steps in part)


def _nearest(parts: Sequence[Sequence[_Counted]], mean: Work) -> list[_Counted]:
    """From each part, the step whose work is nearest to the part's mean stands for all of its steps. What one part gets
    too much is taken off the next."""
    chosen, excess = [], 0.0
    for part in parts:
        steps = sum(c.steps for c in part)
        wanted = _relative(_mean(part), mean) - excess / steps
        nearest = min(part, key=lambda c: (abs(_relative(c.work, mean) - wanted), c.group))
        excess = steps * (_relative(nearest.work, mean) - wanted)
        chosen.append(_Counted(nearest.group, steps, nearest.work))
    return chosen


def _mean(counted: Sequence[_Counted]) -> Work:
    steps = sum(c.steps for c in counted)
    return Work(
        flops=sum(c.work.flops * c.steps for c in counted) / steps,
        moved=sum(c.work.moved * c.steps for c in counted) / steps,
    )


def _relative(work: Work, mean: Work) -> float:
    """FLOPs and bytes as shares of the mean's, on average."""
    return fmean((work.flops / mean.flops if mean.flops else 0.0, work.moved / mean.moved if mean.moved else 0.0))


def _error(chosen: Sequence[_Counted], mean: Work) -> float:
    there = _mean(chosen)
    pairs = ((there.flops, mean.flops), (there.moved, mean.moved))
    return max((abs(a / b - 1) for a, b in pairs if b), default=0.0)
