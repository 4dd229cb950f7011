"""The integer program: how often each block is repeated.

Minimise Σ_r weight_r · |Σ_j A_rj n_j − b_r| + ε · (number of distinct blocks) over integers
0 ≤ n_j ≤ upper_j. The linear relaxation gives a lower bound, but prefers tenths of large blocks, which round to none.
So blocks that it uses too rarely are forbidden step by step, until smaller blocks take over. Rounding and a local
search over single changes, swaps and small random jumps give the answer. scipy's MILP alone takes minutes for
programs of this size (hundreds of integers, L1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, hstack, identity

DISTINCT_PENALTY = 4e-4
"""Cost of one more distinct block, in units of the objective: a readable network may fit a little worse."""

MOST_MOVES = 500
THRESHOLDS = (0.5, 0.6)
"""A start is reached when no block is used less often than this."""

DROPPED = 0.3
"""One step towards a start forbids this share of the blocks that are used too rarely."""

JUMPS = 700
"""Jumps in a search."""

SWAPPED = 10
"""If no single change helps, this many blocks are swapped against others: usually a third of a network's."""

INSTEAD = 100
"""They are swapped against this many others: those that would add the least error. Trying all would take twice the time
and reduce the error by a hundredth."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """`matrix` rows × columns, `target` and `weight` per row, `upper` per column."""

    matrix: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    upper: np.ndarray

    @cached_property
    def columns(self) -> np.ndarray:
        """The columns, each contiguous."""
        return np.ascontiguousarray(self.matrix.T)

    def residual(self, counts: np.ndarray) -> np.ndarray:
        residual: np.ndarray = counts @ self.columns - self.target
        return residual

    def error(self, counts: np.ndarray) -> float:
        return float(self.weight @ np.abs(self.residual(counts)))

    def objective(self, counts: np.ndarray) -> float:
        return self.error(counts) + DISTINCT_PENALTY * float(np.count_nonzero(counts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Integer `counts`, their `error`, and `bound`: no counts, not even fractional ones, have a smaller error."""

    counts: np.ndarray
    error: float
    bound: float


def solve(program: Program, *, max_distinct: int, start: np.ndarray | None = None, seed: int = 0) -> Solution:
    """The best result of local searches from the `relaxation_starts` and, if given, from `start`.

    Raises ArithmeticError if the relaxation has no solution, which only a malformed program can cause.
    """
    starts, bound = relaxation_starts(program, max_distinct=max_distinct)
    starts += [] if start is None else [start]
    solutions = [local_search(program, s, max_distinct=max_distinct, seed=seed) for s in starts]
    best = min(solutions, key=lambda solution: program.objective(solution.counts))
    return Solution(counts=best.counts, error=best.error, bound=bound)


def relaxation_starts(program: Program, *, max_distinct: int) -> tuple[list[np.ndarray], float]:
    """Counts to start a search from, with few blocks, each used about once or more; and the relaxation's bound."""
    relaxed, bound = _relax(program, np.ones(len(program.upper), dtype=bool))
    starts = [_sparse_start(program, relaxed, threshold, max_distinct) for threshold in THRESHOLDS]
    return [np.floor(counts + 0.5).astype(int) for counts in starts], bound


def local_search(
    program: Program,
    start: np.ndarray,
    *,
    max_distinct: int,
    radius: int | None = None,
    tried: Sequence[np.ndarray] = (),
    seed: int = 0,
) -> Solution:
    """The best counts that were not tried. With `radius`, for programs that are only right near `start`, they differ
    from it by at most that many uses of blocks. If all counts of the search were tried, `start`."""
    relaxed, bound = _relax(program, np.ones(len(program.upper), dtype=bool))
    promising = np.flatnonzero((relaxed > 1e-3) | (start > 0))
    counts = _search(program, start, promising, max_distinct, np.random.default_rng(seed), radius=radius, tried=tried)
    return Solution(counts=counts, error=program.error(counts), bound=bound)


def _relax(program: Program, allowed: np.ndarray) -> tuple[np.ndarray, float]:
    """Fractional optimum over the allowed columns: minimise weight·(u + v) with A n − u + v = b."""
    rows, columns = program.matrix.shape
    eye = identity(rows, format="csr")
    result = linprog(
        np.concatenate([np.full(columns, 1e-7), program.weight, program.weight]),
        A_eq=hstack([csr_matrix(program.matrix), -eye, eye], format="csr"),
        b_eq=program.target,
        bounds=[(0, u) for u in np.where(allowed, program.upper, 0)] + [(0, None)] * (2 * rows),
        method="highs",
    )
    if result.status != 0:
        raise ArithmeticError(f"the linear relaxation was not solved: {result.message}")
    counts = np.maximum(result.x[:columns], 0.0)
    return counts, program.error(counts)


def _sparse_start(program: Program, counts: np.ndarray, threshold: float, max_distinct: int) -> np.ndarray:
    """From the relaxation's counts to counts of at least `threshold` each: forbid the blocks that are used least and
    solve again. Then, if there are too many blocks, forbid those that contribute least."""
    allowed = np.ones(len(counts), dtype=bool)
    size = np.abs(program.matrix * program.weight[:, None]).sum(axis=0)
    while len(used := np.flatnonzero(counts > 1e-6)):
        rare = used[counts[used] < threshold]
        if len(rare):
            rare = rare[np.argsort(counts[rare], kind="stable")]
            allowed[rare[: max(1, int(DROPPED * len(rare)))]] = False
        elif len(used) > max_distinct:
            worth = np.argsort(size[used] * counts[used], kind="stable")
            allowed[used[worth[: len(used) - max(max_distinct, int(0.8 * len(used)))]]] = False
        else:
            break
        counts, _ = _relax(program, allowed)
    return counts


def _search(
    program: Program,
    start: np.ndarray,
    promising: np.ndarray,
    max_distinct: int,
    generator: np.random.Generator,
    radius: int | None,
    tried: Sequence[np.ndarray] = (),
) -> np.ndarray:
    """Iterated local search: remove some blocks, add some that the relaxation uses, descend, and continue from the
    better counts. The answer is the best that was not tried."""
    known = {counts.tobytes() for counts in tried}
    here, value = start, program.objective(start)
    best, best_value = (start, value) if start.tobytes() not in known else (None, np.inf)
    for _ in range(JUMPS):
        jumped = _jump(program, here, promising, max_distinct, generator)
        if radius is not None and _distance(jumped, start) > radius:
            continue
        trial = _descend(program, jumped, max_distinct, near=start, radius=radius)
        trial_value = program.objective(trial)
        if trial_value < value - 1e-9:
            here, value = trial, trial_value
        if trial_value < best_value - 1e-9 and trial.tobytes() not in known:
            best, best_value = trial, trial_value
    return start if best is None else best


def _jump(
    program: Program,
    counts: np.ndarray,
    promising: np.ndarray,
    max_distinct: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Remove up to three blocks and add up to three others."""
    trial = counts.copy()
    used = np.flatnonzero(trial)
    for j in generator.choice(used, size=min(len(used), int(generator.integers(0, 4))), replace=False):
        trial[j] -= int(generator.integers(1, trial[j] + 1))
    pool = promising if len(promising) and generator.random() < 0.75 else np.arange(len(trial))
    for j in generator.choice(pool, size=int(generator.integers(1, 4))):
        if trial[j] > 0 or np.count_nonzero(trial) < max_distinct:
            trial[j] += 1
    clipped: np.ndarray = np.minimum(trial, program.upper)
    return clipped


def _distance(counts: np.ndarray, other: np.ndarray) -> int:
    """Number of uses of blocks that only one of two networks has."""
    return int(np.abs(counts - other).sum())


def _descend(
    program: Program,
    counts: np.ndarray,
    max_distinct: int,
    near: np.ndarray | None = None,
    radius: int | None = None,
) -> np.ndarray:
    """Make the best move until none improves: one count up or down; if neither helps, one up and another down. With a
    radius, stop at its border."""
    columns = program.columns
    residual = program.residual(counts)
    for _ in range(MOST_MOVES):
        up, down = _best_move(program, counts, residual, max_distinct)
        if up < 0 and down < 0:
            break
        moved = counts.copy()
        for j, sign in ((up, 1), (down, -1)):
            if j >= 0:
                moved[j] += sign
                residual = residual + sign * columns[j]
        if near is not None and radius is not None and _distance(moved, near) > radius:
            break
        counts = moved
    return counts


def _best_move(program: Program, counts: np.ndarray, residual: np.ndarray, max_distinct: int) -> tuple[int, int]:
    """Columns to raise and to lower by one (−1: none). Not all swaps are tried: only the blocks whose removal costs
    least, against the blocks whose addition costs least."""
    columns, weight = program.columns, program.weight
    base = float(weight @ np.abs(residual))
    unused = counts == 0
    downs = np.flatnonzero(~unused)
    new = DISTINCT_PENALTY * unused
    last = DISTINCT_PENALTY * (counts[downs] == 1)
    closed = np.where(counts >= program.upper, np.inf, new)
    if len(downs) >= max_distinct:
        closed[unused] = np.inf
    best, choice = -1e-9, (-1, -1)
    raised = columns + residual
    upward = np.abs(raised) @ weight
    gain = upward - base + closed
    if gain[up := int(np.argmin(gain))] < best:
        best, choice = float(gain[up]), (up, -1)
    if len(downs):
        gain = np.abs(residual - columns[downs]) @ weight - base - last
        if gain[k := int(np.argmin(gain))] < best:
            best, choice = float(gain[k]), (-1, int(downs[k]))
    if choice != (-1, -1) or not len(downs):
        return choice
    ups = np.sort(np.argpartition(upward, min(INSTEAD, len(upward)) - 1)[:INSTEAD])
    raised = raised[ups]
    swapped = np.empty_like(raised)
    for k in np.argsort(gain, kind="stable")[:SWAPPED]:
        down = downs[k]
        np.subtract(raised, columns[down], out=swapped)
        np.abs(swapped, out=swapped)
        opened = new if counts[down] == 1 and len(downs) == max_distinct else closed
        swap = swapped @ weight - base + opened[ups] - last[k]
        swap[(counts[ups] >= program.upper[ups]) | (ups == down)] = np.inf
        i = int(np.argmin(swap))
        if swap[i] < best:
            best, choice = float(swap[i]), (int(ups[i]), int(down))
    return choice
