"""The rounds of correction, on a machine that is simulated: what is learnt in place makes the network better."""

from __future__ import annotations

from typing import Any

import pytest
from synthesis_builders import BUDGET_S, SimulatedBench, small_problem

from statsnet.errors import StatsNetError
from statsnet.synthesis.problem import Design
from statsnet.synthesis.rounds import ROUNDS, Knowledge, NextNetwork, build_and_measure, solve_in_rounds


def test_learning_in_place_brings_the_network_nearer() -> None:
    problem = small_problem()
    best, history = solve_in_rounds(problem)
    errors = [h.measured_error for h in history]
    assert 2 <= len(errors) <= ROUNDS
    assert min(errors) < 0.95 * errors[0]
    assert best.error(problem.rows, BUDGET_S) == pytest.approx(min(errors), rel=0.05)
    assert abs(history[-1].predicted_error - errors[-1]) < abs(history[0].predicted_error - errors[0])
    assert best.latency_s == pytest.approx(BUDGET_S, rel=0.2)


def test_no_network_is_measured_twice_before_the_end() -> None:
    bench = SimulatedBench()
    best, history = solve_in_rounds(small_problem(bench))
    *rounds, last = bench.sources
    assert len(set(rounds)) == len(rounds) == len(history)
    assert last == best.source


def test_the_same_measurements_give_the_same_network() -> None:
    first, second = (solve_in_rounds(small_problem(design=Design(seed=3)))[0] for _ in range(2))
    assert first.source == second.source


def test_what_is_known_is_passed_on_and_not_changed() -> None:
    """Networks that are known stand for the first rounds; the problem keeps the costs of blocks alone."""
    bench = SimulatedBench()
    problem = small_problem(bench)
    nothing = Knowledge(costs=problem.costs)
    assert nothing.best(problem) is None
    one = build_and_measure(problem, NextNetwork(problem=problem, known=nothing).free(), nothing)
    assert (nothing.trials, problem.costs.seen()) == ((), [])
    assert len(one.trials) == 1
    assert {b.key for b in one.costs.seen()} >= one.trials[0].counts.keys()
    best, history = solve_in_rounds(problem, rounds=1, confirm=False, known=one)
    assert history[0].measured_error == one.trials[0].error(problem.rows, BUDGET_S)
    assert best.source in bench.sources
    assert len(history) == len(bench.sources) == 2
    assert len(one.trials) == 1


def test_a_budget_that_nothing_fits_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a program's relaxation rounds to may be no block at all."""

    def none(program: Any, *_: Any, **__: Any) -> list[Any]:
        return [0 * program.upper]

    monkeypatch.setattr("statsnet.synthesis.rounds.relaxation_starts", none)
    with pytest.raises(StatsNetError, match="no network fits"):
        solve_in_rounds(small_problem())
