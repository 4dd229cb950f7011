"""The integer program: how often each block is repeated.

Minimise Σ_r weight_r · |Σ_j A_rj n_j − b_r| + ε · (number of distinct blocks) over integers
0 ≤ n_j ≤ upper_j. The linear relaxation gives a lower bound, but prefers tenths of large blocks, which round to none.
So blocks that it uses too rarely are forbidden step by step, until smaller blocks take over. What it rounds to is where
a local search starts (local_search.py). scipy's MILP alone takes minutes for programs of this size (hundreds of
integers, L1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, hstack, identity

DISTINCT_PENALTY = 4e-4
"""Cost of one more distinct block, in units of the objective: a readable network may fit a little worse."""

LEAST_COST = 1e-7
"""Cost of one use in the relaxation: of all fractional optima, it gives one without needless uses."""

SPARSENINGS = ((0.6, 0.9), (0.6, 1.0), (0.75, 1.0))
"""How a start is reached: no block is used less often than the first number; each step forbids the second number's
share of those that are. Which start a search makes most of cannot be seen before."""

FEW = 3
"""This many blocks may still be used too rarely: steps for the last ones would take as long as all before."""


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
class Relaxation:
    """The fractional optimum. No counts, not even fractional ones, have a smaller error than its `error`."""

    counts: np.ndarray
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Integer `counts`, their `error`, and `bound`, the relaxation's error."""

    counts: np.ndarray
    error: float
    bound: float


def relax(program: Program, allowed: np.ndarray | None = None) -> Relaxation:
    """The fractional optimum over the allowed columns (all unless given).

    Solved is the dual program, which has no variables for the rows' errors and so half the size: maximise b·y − upper·z
    with Aᵀy − z ≤ LEAST_COST, |y| ≤ weight and z ≥ 0. Its constraints' marginals are the counts.

    Raises ArithmeticError if there is no solution, which only a malformed program can cause.
    """
    used = np.flatnonzero(program.upper > 0 if allowed is None else (program.upper > 0) & allowed)
    counts = np.zeros(len(program.upper))
    if len(used):
        rows = np.flatnonzero(program.matrix.any(axis=1))
        columns = csr_matrix(program.matrix[np.ix_(rows, used)].T)
        weight, none = program.weight[rows], np.zeros(len(used))
        result = linprog(
            np.concatenate([-program.target[rows], program.upper[used]]),
            A_ub=hstack([columns, -identity(len(used))], format="csc"),
            b_ub=none + LEAST_COST,
            bounds=np.column_stack([np.concatenate([-weight, none]), np.concatenate([weight, none + np.inf])]),
            method="highs",
        )
        if result.status != 0:
            raise ArithmeticError(f"the linear relaxation was not solved: {result.message}")
        counts[used] = np.clip(-result.ineqlin.marginals, 0.0, program.upper[used])
    return Relaxation(counts=counts, error=program.error(counts))


def relaxation_starts(program: Program, relaxed: Relaxation, *, max_distinct: int) -> list[np.ndarray]:
    """Counts to start a search from, with few blocks, most of them used about once or more."""
    return [_sparse_start(program, relaxed.counts, *how, max_distinct) for how in SPARSENINGS]


def _sparse_start(
    program: Program, counts: np.ndarray, threshold: float, dropped: float, max_distinct: int
) -> np.ndarray:
    """From the relaxation's counts to counts of at least `threshold` each: forbid blocks that are used less and solve
    again. Then, if there are too many blocks, keep of these the ones that contribute most."""
    allowed = np.ones(len(counts), dtype=bool)
    size = program.weight @ np.abs(program.matrix)
    while len(used := np.flatnonzero(counts > 1e-6)):
        rare = used[counts[used] < threshold]
        if len(rare) > FEW:
            rare = rare[np.argsort(counts[rare], kind="stable")]
            allowed[rare[: max(1, int(dropped * len(rare)))]] = False
        elif len(used) > max_distinct:
            worth = np.argsort(size[used] * counts[used], kind="stable")
            allowed[:] = False
            allowed[used[worth[-max(max_distinct, int(0.8 * len(used))) :]]] = True
        else:
            break
        counts = relax(program, allowed).counts
    return np.floor(counts + 0.5).astype(int)
