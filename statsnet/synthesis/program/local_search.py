"""The integer program's local search: jumps, each followed by a descent.

A descent makes the best single change of a count until none helps. Then it replaces all uses of a block by uses of a
similar one, or else swaps one use of a block against one of another, and goes on. What is left is jumped over: some
blocks are removed at random and others added. Each step tries thousands of changes at once (weighted_columns.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from statsnet.synthesis.program.integer_program import (
    DISTINCT_PENALTY,
    Program,
    Relaxation,
    Solution,
    relax,
    relaxation_starts,
)
from statsnet.synthesis.program.weighted_columns import WeightedColumns

JUMPS = 100
"""Jumps in a search."""

MOST_MOVES = 500
LEAST_GAIN = 1e-5
"""A move must reduce the objective by this much. What is less may be noise of single precision."""

HOPELESS = 0.06
"""A descent is left if no single change helps and its objective is still by this share above the best."""

SWAPPED = 10
"""One use of this many blocks is swapped, those whose removal adds the least error: usually a quarter of a network."""

INSTEAD = 100
"""It is swapped against one of this many others, those whose addition adds the least error."""


@dataclass(frozen=True, slots=True)
class Move:
    """`growth` of the objective if so many `times` are added to the counts of `columns`."""

    growth: float
    columns: tuple[int, ...] = ()
    times: tuple[int, ...] = ()


NO_MOVE = Move(0.0)


def solve(program: Program, *, max_distinct: int, start: np.ndarray | None = None, seed: int = 0) -> Solution:
    """The best result of local searches from the `relaxation_starts` and, if given, from `start`.

    Raises ArithmeticError if the relaxation has no solution, which only a malformed program can cause.
    """
    relaxed = relax(program)
    starts = relaxation_starts(program, relaxed, max_distinct=max_distinct)
    starts += [] if start is None else [start]
    found = [local_search(program, s, relaxed, max_distinct=max_distinct, seed=seed) for s in starts]
    return min(found, key=lambda solution: program.objective(solution.counts))


def local_search(
    program: Program,
    start: np.ndarray,
    relaxed: Relaxation,
    *,
    max_distinct: int,
    radius: int | None = None,
    tried: Sequence[np.ndarray] = (),
    seed: int,
    jumps: int = JUMPS,
) -> Solution:
    """The best counts that were not tried, after so many jumps. With `radius`, for programs that are only right near
    `start`, they differ from it by at most that many uses of blocks. If all counts of the search were tried, `start`.
    """
    generator = np.random.default_rng(seed)
    descent = Descent(program, start, max_distinct, radius)
    in_relaxation = np.flatnonzero((relaxed.counts > 1e-3) | (start > 0))
    known = {counts.tobytes() for counts in tried}
    here = Point(start, descent)
    best, best_value = (start, here.objective) if start.tobytes() not in known else (None, np.inf)
    for _ in range(jumps):
        jumped = _jump(here, in_relaxation, generator)
        if not descent.is_near(jumped):
            continue
        trial = descent.down_from(jumped, hopeless=(1.0 + HOPELESS) * here.objective)
        if trial.objective < here.objective - 1e-9:
            here = trial
        if trial.objective < best_value - 1e-9 and trial.counts.tobytes() not in known:
            best, best_value = trial.counts, trial.objective
    counts = start if best is None else best
    return Solution(counts=counts, error=program.error(counts), bound=relaxed.error)


def _jump(here: Point, in_relaxation: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Remove up to three blocks and add up to three others, mostly such as the relaxation uses."""
    counts = here.counts.copy()
    removed = min(len(here.used), int(generator.integers(0, 4)))
    for j in generator.choice(here.used, size=removed, replace=False):
        counts[j] -= int(generator.integers(1, counts[j] + 1))
    pool = in_relaxation if len(in_relaxation) and generator.random() < 0.75 else np.arange(len(counts))
    for j in generator.choice(pool, size=int(generator.integers(1, 4))):
        if counts[j] > 0 or np.count_nonzero(counts) < here.descent.max_distinct:
            counts[j] += 1
    clipped: np.ndarray = np.minimum(counts, here.descent.program.upper)
    return clipped


class Descent:
    """A descent's limits, and the columns that its points share."""

    def __init__(self, program: Program, start: np.ndarray, max_distinct: int, radius: int | None) -> None:
        self.program, self.start, self.max_distinct, self.radius = program, start, max_distinct, radius
        self.columns = WeightedColumns(program)

    def is_near(self, counts: np.ndarray) -> bool:
        """Whether a network differs from the start by few uses of blocks."""
        return self.radius is None or int(np.abs(counts - self.start).sum()) <= self.radius

    def down_from(self, counts: np.ndarray, *, hopeless: float) -> Point:
        point = Point(counts, self)
        for _ in range(MOST_MOVES):
            moved = self._after_a_move(point, hopeless)
            if moved is None:
                break
            point = moved
        return point

    def _after_a_move(self, point: Point, hopeless: float) -> Point | None:
        for find in (Point.change, Point.replacement, Point.swap):
            move = find(point)
            if move.growth < -LEAST_GAIN:
                counts = point.counts.copy()
                counts[list(move.columns)] += move.times
                if self.is_near(counts) and (moved := Point(counts, self)).objective < point.objective:
                    return moved
            if find is Point.change and point.error > hopeless:
                return None
        return None


class Point:
    """Counts, and the best moves from them."""

    def __init__(self, counts: np.ndarray, descent: Descent) -> None:
        self.counts, self.descent = counts, descent
        self.upper, self.columns = descent.program.upper, descent.columns
        self.used = np.flatnonzero(counts)
        self.is_full = len(self.used) >= descent.max_distinct
        self.residual = self.columns.residual(counts, self.used)
        self.error = self.columns.left_out + float(np.abs(self.residual).sum())
        self.objective = self.error + DISTINCT_PENALTY * len(self.used)
        here = self.residual[None]
        self.adding = self.columns.growth(here, slice(None))[0]
        self.removing = self.columns.growth(here, self.used, np.full((1, len(self.used)), -1))[0]
        self.removing -= DISTINCT_PENALTY * (counts[self.used] == 1)

    def change(self) -> Move:
        """One use more or less of one block."""
        unused = self.counts == 0
        adding = self.adding + DISTINCT_PENALTY * unused
        adding[(self.counts >= self.upper) | (unused & self.is_full)] = np.inf
        up = int(np.argmin(adding))
        best = Move(float(adding[up]), (up,), (1,))
        if len(self.used):
            down = int(np.argmin(self.removing))
            best = min(best, Move(float(self.removing[down]), (int(self.used[down]),), (-1,)), key=lambda m: m.growth)
        return best

    def replacement(self) -> Move:
        """All uses of a block replaced by about as much of a similar one."""
        similar, uses = self.columns.similar[self.used], self.counts[self.used][:, None]
        room = self.upper[similar] - self.counts[similar]
        times = np.minimum(np.maximum(np.rint(uses * self.columns.times[self.used]), 1), room).astype(int)
        growth = self._growth_without(self.used, uses, similar, times)
        growth += DISTINCT_PENALTY * (self.counts[similar] == 0) - DISTINCT_PENALTY
        growth[times < 1] = np.inf
        return _least(growth, self.used, uses, similar, times)

    def swap(self) -> Move:
        """One use of a block against one of another."""
        down = self.used[np.argsort(self.removing, kind="stable")[:SWAPPED]]
        count = min(INSTEAD, len(self.adding))
        up = np.sort(np.argpartition(self.adding, count - 1)[:count])
        is_last, is_new = self.counts[down][:, None] == 1, self.counts[up] == 0
        growth = self._growth_without(down, np.ones((len(down), 1)), up, None)
        growth += DISTINCT_PENALTY * is_new - DISTINCT_PENALTY * is_last
        closed = (self.counts[up] >= self.upper[up]) | (is_new & ~is_last & self.is_full)
        growth[closed | (up == down[:, None])] = np.inf
        once = np.ones(growth.shape, dtype=int)
        return _least(growth, down, once, np.broadcast_to(up, growth.shape), once)

    def _growth_without(
        self, removed: np.ndarray, uses: np.ndarray, added: np.ndarray, times: np.ndarray | None
    ) -> np.ndarray:
        """How much the error grows without so many uses of one column and with another."""
        residuals = self.residual - uses * self.columns.values[removed]
        growth = np.abs(residuals).sum(axis=1) - np.abs(self.residual).sum()
        return growth[:, None] + self.columns.growth(residuals, added, times)


def _least(growth: np.ndarray, removed: np.ndarray, uses: np.ndarray, added: np.ndarray, times: np.ndarray) -> Move:
    """The best exchange of columns: `removed` by row, the others by row and column of `growth`."""
    if not growth.size:
        return NO_MOVE
    i, k = np.unravel_index(np.argmin(growth), growth.shape)
    return Move(float(growth[i, k]), (int(removed[i]), int(added[i, k])), (-int(uses[i, 0]), int(times[i, k])))
