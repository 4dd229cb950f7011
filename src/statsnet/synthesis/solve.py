"""The integer program: how often each block is repeated.

Minimise Σ_r weight_r · |Σ_j A_rj n_j − b_r| + ε · (number of distinct blocks) over integers
0 ≤ n_j ≤ upper_j. The linear relaxation gives a lower bound and a start; rounding and a local search over
single changes, swaps and small random jumps give the answer. scipy's MILP alone does not close programs of
this size (hundreds of integers, L1) in minutes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, hstack, identity

DISTINCT_PENALTY = 4e-4
"""What one more distinct block costs, in units of the objective: a readable network is worth a little fit."""

MOST_MOVES = 500
ROUNDINGS = 12
SEARCHED = 3
JUMPS = 350
"""Random roundings of the relaxation, how many of the best are searched further, and jumps in each search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """`matrix` rows × columns, `target` and `weight` per row, `upper` per column."""

    matrix: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    upper: np.ndarray

    def error(self, counts: np.ndarray) -> float:
        return float(self.weight @ np.abs(self.matrix @ counts - self.target))

    def objective(self, counts: np.ndarray) -> float:
        return self.error(counts) + DISTINCT_PENALTY * float(np.count_nonzero(counts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Integer `counts`, their `error`, and `bound`: no counts, not even fractional ones, are nearer."""

    counts: np.ndarray
    error: float
    bound: float


def solve(program: Program, *, max_distinct: int, start: np.ndarray | None = None, seed: int = 0) -> Solution:
    """Solve from several roundings of the relaxation and, where given, from `start` (the last counts).

    Raises ArithmeticError where the relaxation has no solution, which only a malformed program can cause.
    """
    generator = np.random.default_rng(seed)
    relaxed, bound = _relax(program, np.ones(len(program.upper), dtype=bool))
    sparse = _sparsify(program, relaxed, max_distinct)
    starts = [np.floor(sparse + 0.5)]
    starts += [np.floor(sparse + generator.random(len(sparse))) for _ in range(ROUNDINGS)]
    starts += [] if start is None else [start]
    found = [_descend(program, np.clip(s, 0, program.upper).astype(int), max_distinct) for s in starts]
    found.sort(key=program.objective)
    promising = np.flatnonzero(relaxed > 1e-3)
    searched = [
        _search(program, s, promising, max_distinct, generator, radius=None) for s in found[:SEARCHED]
    ]
    best = min(searched, key=program.objective)
    return Solution(counts=best, error=program.error(best), bound=bound)


def polish(program: Program, start: np.ndarray, *, max_distinct: int, radius: int, seed: int = 0) -> Solution:
    """The best counts that differ from `start` by at most `radius` uses of blocks: for a program that is only known
    to be right near there."""
    relaxed, bound = _relax(program, np.ones(len(program.upper), dtype=bool))
    promising = np.flatnonzero((relaxed > 1e-3) | (start > 0))
    generator = np.random.default_rng(seed)
    counts = _search(program, start, promising, max_distinct, generator, radius=radius)
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


def _sparsify(program: Program, counts: np.ndarray, max_distinct: int) -> np.ndarray:
    """Drop the blocks that contribute least, a fifth at a time, and solve again with the rest."""
    size = np.abs(program.matrix * program.weight[:, None]).sum(axis=0)
    while np.count_nonzero(counts > 0.2) > max_distinct:
        used = np.flatnonzero(counts > 0.2)
        worth = size[used] * counts[used]
        kept = used[np.argsort(-worth, kind="stable")[: max(max_distinct, int(0.8 * len(used)))]]
        allowed = np.zeros(len(counts), dtype=bool)
        allowed[kept] = True
        counts, _ = _relax(program, allowed)
    return counts


def _search(
    program: Program,
    start: np.ndarray,
    promising: np.ndarray,
    max_distinct: int,
    generator: np.random.Generator,
    radius: int | None,
) -> np.ndarray:
    """Iterated local search: take some blocks away, put some in that the relaxation likes, descend again, keep what
    is better."""
    best = start
    value = program.objective(best)
    for _ in range(JUMPS):
        trial = best.copy()
        used = np.flatnonzero(trial)
        for j in generator.choice(used, size=min(len(used), int(generator.integers(0, 4))), replace=False):
            trial[j] -= int(generator.integers(1, trial[j] + 1))
        pool = promising if len(promising) and generator.random() < 0.75 else np.arange(len(trial))
        for j in generator.choice(pool, size=int(generator.integers(1, 4))):
            if trial[j] > 0 or np.count_nonzero(trial) < max_distinct:
                trial[j] += 1
        trial = _descend(program, np.minimum(trial, program.upper), max_distinct)
        near = radius is None or np.abs(trial - start).sum() <= radius
        if near and program.objective(trial) < value - 1e-9:
            best, value = trial, program.objective(trial)
    return best


def _descend(program: Program, counts: np.ndarray, max_distinct: int) -> np.ndarray:
    """Best improvement: a count up or down by one, and where neither helps, one up and another down."""
    residual = program.matrix @ counts - program.target
    for _ in range(MOST_MOVES):
        up, down = _best_move(program, counts, residual, max_distinct)
        if up < 0 and down < 0:
            break
        for j, sign in ((up, 1), (down, -1)):
            if j >= 0:
                counts[j] += sign
                residual = residual + sign * program.matrix[:, j]
    return counts


def _best_move(
    program: Program, counts: np.ndarray, residual: np.ndarray, max_distinct: int
) -> tuple[int, int]:
    """Columns to raise and to lower by one (−1: none)."""
    a, w = program.matrix, program.weight
    base = float(w @ np.abs(residual))
    ups = np.flatnonzero(counts < program.upper)
    downs = np.flatnonzero(counts > 0)
    new, last = DISTINCT_PENALTY * (counts[ups] == 0), DISTINCT_PENALTY * (counts[downs] == 1)
    full = np.count_nonzero(counts) >= max_distinct
    closed = np.where(full & (counts[ups] == 0), np.inf, 0.0)
    best, choice = -1e-9, (-1, -1)
    gain_up = w @ np.abs(residual[:, None] + a[:, ups]) - base + new + closed
    if len(ups) and gain_up.min() < best:
        best, choice = float(gain_up.min()), (int(ups[np.argmin(gain_up)]), -1)
    gain_down = w @ np.abs(residual[:, None] - a[:, downs]) - base - last
    if len(downs) and gain_down.min() < best:
        best, choice = float(gain_down.min()), (-1, int(downs[np.argmin(gain_down)]))
    if choice != (-1, -1) or not len(ups):
        return choice
    for k, down in enumerate(downs):
        opened = 0.0 if counts[down] == 1 else closed
        gains = w @ np.abs((residual - a[:, down])[:, None] + a[:, ups]) - base + new - last[k] + opened
        gains[ups == down] = np.inf
        i = int(np.argmin(gains))
        if gains[i] < best:
            best, choice = float(gains[i]), (int(ups[i]), int(down))
    return choice
