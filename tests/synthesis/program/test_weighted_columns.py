"""What a change of the counts does to the error, tried for many at once."""

from __future__ import annotations

import numpy as np
import pytest

from statsnet.synthesis.program.integer_program import Program
from statsnet.synthesis.program.weighted_columns import WeightedColumns


@pytest.fixture
def program() -> Program:
    """Rows that all columns have, rows of a few columns each, and rows of none."""
    generator = np.random.default_rng(5)
    share = np.repeat([1.0, 0.05, 0.0], [6, 30, 4])
    matrix = generator.random((40, 50)) * (generator.random((40, 50)) < share[:, None])
    return Program(
        matrix=matrix,
        target=3 * generator.random(40),
        weight=0.1 + generator.random(40),
        upper=np.full(50, 9),
    )


def grown(program: Program, counts: np.ndarray, column: int, times: int) -> float:
    changed = counts.copy()
    changed[column] += times
    return program.error(changed) - program.error(counts)


def test_growth_is_the_difference_of_errors(program: Program) -> None:
    columns, counts = WeightedColumns(program), np.arange(50) % 3
    single = 1e-6 * program.error(counts)
    used = np.flatnonzero(counts)
    residual = columns.residual(counts, used)
    assert columns.left_out + np.abs(residual).sum() == pytest.approx(program.error(counts))
    every = columns.growth(residual[None], slice(None))[0]
    assert every == pytest.approx([grown(program, counts, j, 1) for j in range(50)], abs=single)
    fewer = columns.growth(residual[None], used, np.full((1, len(used)), -1))[0]
    assert fewer == pytest.approx([grown(program, counts, j, -1) for j in used], abs=single)


def test_each_residual_may_have_its_own_columns(program: Program) -> None:
    columns, networks = WeightedColumns(program), [np.arange(50) % 3, np.arange(50) % 4]
    residuals = np.stack([columns.residual(counts, np.flatnonzero(counts)) for counts in networks])
    others, times = np.array([[1, 7, 9], [4, 2, 30]]), np.array([[1, 2, 3], [3, 1, 2]])
    expected = [
        [grown(program, counts, int(j), int(n)) for j, n in zip(own, often, strict=True)]
        for counts, own, often in zip(networks, others, times, strict=True)
    ]
    assert columns.growth(residuals, others, times) == pytest.approx(np.array(expected), rel=1e-4)


def test_another_size_of_a_block_is_similar() -> None:
    small = np.array([1.0, 2.0, 0.0])
    matrix = np.stack([small, [0.0, 1.0, 4.0], 3 * small], axis=1)
    columns = WeightedColumns(Program(matrix=matrix, target=small, weight=np.ones(3), upper=np.full(3, 9)))
    assert columns.similar[[0, 2], 0].tolist() == [2, 0]
    assert columns.times[[0, 2], 0] == pytest.approx([1 / 3, 3.0])
