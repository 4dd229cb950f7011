"""Other ways to stand for a suite: what each promises about what it chooses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ablations import solved, without_devices
from baselines import expensive_operators, layer_histogram, random_blocks, representatives
from test_matched_characteristics import GEMM_S, RELU_S, small_signature
from test_synthesis_rounds import SimulatedBench, columns

from statsnet.signatures.target import target_of
from statsnet.synthesis.matched_characteristics import MatchedCharacteristics
from statsnet.synthesis.network_measurement import MachineSpeed
from statsnet.synthesis.problem import Design, Problem

BUDGET_S = 0.01


def test_a_part_of_the_method_is_taken_out() -> None:
    once, usual = problem(), problem()
    solved(once, rounds=1)
    assert len(once.bench.sources) == 1  # type: ignore[attr-defined]
    assert without_devices(usual) in usual.bench.sources  # type: ignore[attr-defined]
    assert all(usual.rows.weights > 0)


def problem(budget_s: float = BUDGET_S) -> Problem:
    bench: Any = SimulatedBench()
    target = target_of(small_signature())
    return Problem(
        mix_text="a mix", target=target, budget_s=budget_s, rows=MatchedCharacteristics(target),
        columns=columns(), bench=bench,
        pace=MachineSpeed(source="", latency_s=0.01),
        replayed=(), not_retimed=(), design=Design(),
    )  # fmt: skip


def predicted_s(found: Problem, counted: list[Any]) -> float:
    matrix = found.columns.matrix(found.rows, found.budget_s, [block for block, _ in counted])
    times = matrix[found.rows.index("total")]
    return float(sum(t * n for t, (_, n) in zip(times, counted, strict=True))) * found.budget_s


def test_random_blocks_fill_the_budget() -> None:
    found = problem()
    assert predicted_s(found, random_blocks(found)) == pytest.approx(BUDGET_S, rel=0.02)
    assert random_blocks(found) == random_blocks(found)


def test_a_layer_histogram_has_as_many_layers_as_the_target() -> None:
    """4 in each step of 10 ms."""
    for factor in (1, 3):
        counted = layer_histogram(problem(factor * BUDGET_S))
        assert sum(number for block, number in counted if block.kind == "linear") == 4 * factor


def test_the_most_expensive_operators_come_first_and_fit() -> None:
    """The product takes 1.5 ms a call, the activation 0.5 ms."""
    both = expensive_operators(problem(1.05 * (GEMM_S + RELU_S) / 4))
    assert [block.kind for block, _ in both] == ["linear", "pointwise"]
    (only,) = expensive_operators(problem(1.05 * GEMM_S / 4))
    assert (only[0].kind, only[1]) == ("linear", 1)


def test_a_subset_holds_one_of_each_sort_with_all_of_its_weight() -> None:
    usual = small_signature()
    measurement = replace(usual.measurements[0], cluster_time_s=(RELU_S / 2, GEMM_S))
    other = replace(usual, measurements=(measurement,))
    chosen = representatives([usual, other, usual], [0.2, 0.5, 0.3], 2)
    assert set(chosen.values()) == {0.5}
    assert len({0, 2} & set(chosen)) == 1
    assert 1 in chosen
