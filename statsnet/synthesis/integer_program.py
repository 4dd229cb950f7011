"""The integer program: how often each block is repeated.

Minimise Σ_r weight_r · |Σ_j A_rj n_j − b_r| + ε · (number of distinct blocks) over integers
0 ≤ n_j ≤ upper_j. The linear relaxation gives a lower bound, but likes tenths of large blocks, which round to none;
so what it uses too little of is forbidden step by step, until smaller blocks take over (a dive). Rounding and a local
search over single changes, swaps and small random jumps give the answer. scipy's MILP alone takes minutes for programs
of this size (hundreds of integers, L1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, hstack, identity

DISTINCT_PENALTY = 4e-4
"""What one more distinct block costs, in units of the objective: a readable network is worth a little fit."""

MOST_MOVES = 500
THRESHOLDS = (0.5, 0.6)
"""A dive ends when nothing is used less than this often."""

DROPPED = 0.3
"""Share of the blocks that are used too little which one step of a dive forbids."""

JUMPS = 700
"""Jumps in a search."""

SWAPPED = 10
"""Blocks that are tried against others when no single change helps: a third of a network's, as a rule."""

INSTEAD = 100
"""So many others, those that would do the least harm in addition. All of them would take twice the time for a hundredth
of the error."""


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
        found: np.ndarray = counts @ self.columns - self.target
        return found

    def error(self, counts: np.ndarray) -> float:
        return float(self.weight @ np.abs(self.residual(counts)))

    def objective(self, counts: np.ndarray) -> float:
        return self.error(counts) + DISTINCT_PENALTY * float(np.count_nonzero(counts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Integer `counts`, their `error`, and `bound`: no counts, not even fractional ones, are nearer."""

    counts: np.ndarray
    error: float
    bound: float


def solve(program: Program, *, max_distinct: int, start: np.ndarray | None = None, seed: int = 0) -> Solution:
    """The best of what searches from the dives and, where given, from `start` find.

    Raises ArithmeticError where the relaxation has no solution, which only a malformed program can cause.
    """
    starts, bound = relaxation_starts(program, max_distinct=max_distinct)
    starts += [] if start is None else [start]
    found = [local_search(program, s, max_distinct=max_distinct, seed=seed) for s in starts]
    best = min(found, key=lambda solution: program.objective(solution.counts))
    return Solution(counts=best.counts, error=best.error, bound=bound)


def relaxation_starts(program: Program, *, max_distinct: int) -> tuple[list[np.ndarray], float]:
    """Counts to start a search from, of few blocks that are used about once or more; and the relaxation's bound."""
    relaxed, bound = _relax(program, np.ones(len(program.upper), dtype=bool))
    found = [_dive(program, relaxed, threshold, max_distinct) for threshold in THRESHOLDS]
    return [np.floor(counts + 0.5).astype(int) for counts in found], bound


def local_search(
    program: Program,
    start: np.ndarray,
    *,
    max_distinct: int,
    radius: int | None = None,
    tried: Sequence[np.ndarray] = (),
    seed: int = 0,
) -> Solution:
    """The best counts that were not tried and, where a program is only known to be right near there, differ from
    `start` by at most `radius` uses of blocks. Where all that were found have been tried, `start`."""
    relaxed, bound = _relax(program, np.ones(len(program.upper), dtype=bool))
    promising = np.flatnonzero((relaxed > 1e-3) | (start > 0))
    counts = _search(
        program, start, promising, max_distinct, np.random.default_rng(seed), radius=radius, tried=tried
    )
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


def _dive(program: Program, counts: np.ndarray, threshold: float, max_distinct: int) -> np.ndarray:
    """From the relaxation's counts to ones of at least `threshold` each: forbid the blocks that are used least, solve
    again. Then, of too many blocks, those that contribute least."""
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
    """Iterated local search: take some blocks away, put some in that the relaxation likes, descend again, go on from
    what is better. The answer is the best that was not tried."""
    known = {t.tobytes() for t in tried}
    here, value = start, program.objective(start)
    best, best_value = (start, value) if start.tobytes() not in known else (None, np.inf)
    for _ in range(JUMPS):
        jumped = _jump(program, here, promising, max_distinct, generator)
        if radius is not None and _distance(jumped, start) > radius:
            continue
        trial = _descend(program, jumped, max_distinct, near=start, radius=radius)
        found = program.objective(trial)
        if found < value - 1e-9:
            here, value = trial, found
        if found < best_value - 1e-9 and trial.tobytes() not in known:
            best, best_value = trial, found
    return start if best is None else best


def _jump(
    program: Program,
    counts: np.ndarray,
    promising: np.ndarray,
    max_distinct: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Up to three blocks fewer, and up to three others in their place."""
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
    """Uses of blocks that are in one network and not in the other."""
    return int(np.abs(counts - other).sum())


def _descend(
    program: Program,
    counts: np.ndarray,
    max_distinct: int,
    near: np.ndarray | None = None,
    radius: int | None = None,
) -> np.ndarray:
    """Best improvement: a count up or down by one, and where neither helps, one up and another down; with a radius, as
    far as it goes."""
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


def _best_move(
    program: Program, counts: np.ndarray, residual: np.ndarray, max_distinct: int
) -> tuple[int, int]:
    """Columns to raise and to lower by one (−1: none). Of many blocks, only those that the residual would rather not
    have are tried against those that it would rather have."""
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
