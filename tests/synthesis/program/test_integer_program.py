"""The integer program: exact where the answer is known, never worse than rounding, bounded, repeatable."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statsnet.synthesis.program.integer_program import DISTINCT_PENALTY, Program, Solution
from statsnet.synthesis.program.local_search import solve


def program(matrix: np.ndarray, target: np.ndarray, upper: int = 20) -> Program:
    rows, columns = matrix.shape
    return Program(matrix=matrix, target=target, weight=np.ones(rows), upper=np.full(columns, upper))


def random_program(seed: int, rows: int, columns: int, upper: int) -> tuple[Program, np.ndarray]:
    """A program and counts that solve it without error."""
    generator = np.random.default_rng(seed)
    matrix = generator.random((rows, columns)) * generator.choice([0.0, 1.0], (rows, columns), p=[0.3, 0.7])
    counts = generator.integers(0, upper + 1, columns)
    return program(matrix, matrix @ counts, upper), counts


programs = st.tuples(st.integers(0, 10**6), st.integers(2, 6), st.integers(2, 6), st.integers(1, 8))


@pytest.mark.parametrize(
    ("rows", "target", "expected"),
    [
        ([[1.0, 0.0], [0.0, 1.0]], [3.0, 5.0], [3, 5]),
        ([[0.5, 0.2], [0.1, 0.7]], [0.5 * 4 + 0.2 * 3, 0.1 * 4 + 0.7 * 3], [4, 3]),
        ([[1.0]], [0.0], [0]),
        ([[1.0]], [100.0], [20]),
        ([[2.0]], [6.9], [3]),
    ],
)
def test_known_optimum(rows: list[list[float]], target: list[float], expected: list[int]) -> None:
    solution = solve(program(np.array(rows), np.array(target)), max_distinct=9)
    assert solution.counts.tolist() == expected
    assert solution.counts.dtype.kind == "i"


def best_of_all(p: Program, max_distinct: int) -> float:
    """The smallest objective by trying every point."""
    points = itertools.product(*(range(u + 1) for u in p.upper))
    kept = (np.array(n) for n in points if np.count_nonzero(n) <= max_distinct)
    return min(p.objective(n) for n in kept)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("max_distinct", [2, 4])
def test_small_programs_are_solved_exactly(seed: int, max_distinct: int) -> None:
    generator = np.random.default_rng(seed)
    p = program(generator.random((3, 4)), 4 * generator.random(3), upper=4)
    solution = solve(p, max_distinct=max_distinct)
    assert p.objective(solution.counts) == pytest.approx(best_of_all(p, max_distinct), abs=1e-9)


@settings(max_examples=6)
@given(programs)
def test_never_worse_than_rounding_and_never_below_the_bound(sizes: tuple[int, int, int, int]) -> None:
    p, counts = random_program(*sizes)
    columns = len(counts)
    solution = solve(p, max_distinct=columns)
    check(p, solution, columns)
    assert solution.bound == pytest.approx(0.0, abs=1e-6)
    rounded = np.minimum(np.floor(counts * 0.9 + 0.5), p.upper).astype(int)
    started = solve(p, max_distinct=columns, start=rounded)
    assert p.objective(started.counts) <= p.objective(rounded) + 1e-9


@settings(max_examples=6)
@given(programs, st.integers(1, 4))
def test_few_distinct_blocks_when_asked(sizes: tuple[int, int, int, int], max_distinct: int) -> None:
    p, _ = random_program(*sizes)
    check(p, solve(p, max_distinct=max_distinct), max_distinct)


def check(p: Program, solution: Solution, max_distinct: int) -> None:
    assert np.count_nonzero(solution.counts) <= max_distinct
    assert ((solution.counts >= 0) & (solution.counts <= p.upper)).all()
    assert solution.error == pytest.approx(p.error(solution.counts))
    assert solution.bound <= solution.error + 1e-6


def test_the_same_seed_gives_the_same_counts() -> None:
    generator = np.random.default_rng(7)
    p = program(generator.random((12, 30)), 5 * generator.random(12))
    first, second = (solve(p, max_distinct=6, seed=3) for _ in range(2))
    assert first.counts.tolist() == second.counts.tolist()
    check(p, first, 6)


def test_a_last_round_is_a_start() -> None:
    p, counts = random_program(11, 8, 10, 6)
    assert solve(p, max_distinct=10, start=counts).error == pytest.approx(0.0, abs=0.05)


def test_one_more_block_must_be_worth_it() -> None:
    """Two equal columns: one of them is enough."""
    column = np.array([[1.0], [2.0]])
    solution = solve(program(np.hstack([column, column]), 7 * column[:, 0]), max_distinct=2)
    assert np.count_nonzero(solution.counts) == 1
    assert solution.error == 0.0
    tiny = program(np.eye(2), np.array([3.0, DISTINCT_PENALTY / 10]))
    assert solve(tiny, max_distinct=2).counts.tolist() == [3, 0]


def test_a_malformed_program_is_an_error() -> None:
    with pytest.raises((ArithmeticError, ValueError)):
        solve(program(np.array([[float("nan")]]), np.array([1.0])), max_distinct=1)
