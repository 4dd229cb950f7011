"""Other ways to stand for a suite: what each promises about what it chooses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from synthesis_builders import BUDGET_S, GEMM_S, RELU_S, small_problem, small_signature

from benchmarks.ways.baselines import expensive_operators, layer_histogram, random_blocks, representatives
from statsnet.proxy.towers import Placed
from statsnet.synthesis.problem import Problem


def predicted_s(problem: Problem, counted: list[tuple[Placed, int]]) -> float:
    matrix = problem.costs.matrix(problem.rows, problem.budget_s, [block for block, _ in counted])
    times = matrix[problem.rows.index("total")]
    return float(sum(t * n for t, (_, n) in zip(times, counted, strict=True))) * problem.budget_s


def test_random_blocks_fill_the_budget() -> None:
    problem = small_problem()
    assert predicted_s(problem, random_blocks(problem)) == pytest.approx(BUDGET_S, rel=0.02)
    assert random_blocks(problem) == random_blocks(problem)


def test_a_layer_histogram_has_as_many_layers_as_the_target() -> None:
    """4 in each step of 10 ms."""
    for factor in (1, 3):
        counted = layer_histogram(replace(small_problem(), budget_s=factor * BUDGET_S))
        assert sum(number for block, number in counted if block.kind == "linear") == 4 * factor


def test_the_most_expensive_operators_come_first_and_fit() -> None:
    """The product takes 1.5 ms a call, the activation 0.5 ms."""
    problem = small_problem()
    both = expensive_operators(replace(problem, budget_s=1.05 * (GEMM_S + RELU_S) / 4))
    assert [block.kind for block, _ in both] == ["linear", "pointwise"]
    (only,) = expensive_operators(replace(problem, budget_s=1.05 * GEMM_S / 4))
    assert (only[0].kind, only[1]) == ("linear", 1)


def test_a_subset_holds_one_of_each_sort_with_all_of_its_weight() -> None:
    usual = small_signature()
    measurement = replace(usual.measurements[0], cluster_time_s=(RELU_S / 2, GEMM_S))
    other = replace(usual, measurements=(measurement,))
    chosen = representatives([usual, other, usual], [0.2, 0.5, 0.3], 2)
    assert set(chosen.values()) == {0.5}
    assert len({0, 2} & set(chosen)) == 1
    assert 1 in chosen
