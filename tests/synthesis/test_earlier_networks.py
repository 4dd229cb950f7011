"""What networks of other mixes tell of blocks in place, on a machine that is simulated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from synthesis_builders import (
    BUDGET_S,
    CLASSES,
    SLOWER_IN_PLACE,
    SimulatedBench,
    few_jumps,
    part,
    small_problem,
)

from statsnet.measure.cache import MeasurementCache
from statsnet.proxy.towers import Tower
from statsnet.synthesis.chosen_network import build_and_measure
from statsnet.synthesis.costs.block_costs import BlockCosts
from statsnet.synthesis.earlier_networks import MOST_NETWORKS, keep_sums, usual_corrections
from statsnet.synthesis.next_network import NextNetwork
from statsnet.synthesis.problem import Problem
from statsnet.synthesis.trials import Knowledge, Trial


def first_network(problem: Problem) -> Trial:
    nothing = Knowledge(costs=problem.costs)
    choice = NextNetwork(problem=problem, known=nothing).free()
    return build_and_measure(problem, choice, nothing, processes=1).trials[0]


def with_usual(costs: BlockCosts, usual: Mapping[str, float]) -> BlockCosts:
    return replace(costs, usual=usual, _columns={}, _apart_s={})


def missed_by(trial: Trial, problem: Problem) -> float:
    return abs(trial.error_in_budget(problem.rows, BUDGET_S) - trial.solution.error)


def test_the_next_first_network_knows_what_the_last_ones_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few_jumps(monkeypatch)
    problem = small_problem(SimulatedBench(cache=MeasurementCache(tmp_path)))
    before = first_network(problem)
    usual = usual_corrections(problem.bench)
    assert {name: usual[name] for name in CLASSES} == pytest.approx(SLOWER_IN_PLACE, rel=0.05)
    problem = replace(problem, costs=with_usual(problem.costs, usual))
    assert missed_by(first_network(problem), problem) < missed_by(before, problem) / 2


def test_own_networks_tell_more_than_earlier_ones() -> None:
    costs = small_problem().costs
    known = {p.identity: p for p in costs.placed}
    (small, *_, large) = (p for p in known.values() if not p.config["activation"])
    alone_s = costs.forward_and_backward_s([small, large])
    (shape,) = {g.kernel_shape for groups in costs.groups([large]).values() for g in groups}
    slower = with_usual(costs, {CLASSES[0]: 1.3, shape: 1.3})
    assert slower.forward_and_backward_s([large])[0] == pytest.approx(1.3 * alone_s[1], rel=0.01)
    in_place = slower.learn([Tower(blocks=(small,))], [((part(CLASSES[0], 1.6 * alone_s[0], 0.0),),)])
    assert in_place.forward_and_backward_s([large])[0] == pytest.approx(1.6 * alone_s[1], rel=0.02)


def test_only_the_newest_networks_are_kept_and_each_once(tmp_path: Path) -> None:
    bench = SimulatedBench(cache=MeasurementCache(tmp_path))
    keep_sums(bench, "first", {"k": (1.0, 2.0)})
    keep_sums(bench, "first", {"k": (1.0, 1.5)})
    assert usual_corrections(bench) == {"k": 2.0}
    for number in range(MOST_NETWORKS):
        keep_sums(bench, str(number), {"k": (1.0, 1.0), "other": (2.0, 1.0)})
    assert usual_corrections(bench) == {"k": 1.0, "other": 0.5}


def test_other_modes_and_dtypes_have_their_own(tmp_path: Path) -> None:
    cache = MeasurementCache(tmp_path)
    keep_sums(SimulatedBench(cache=cache), "network", {"k": (1.0, 1.5)})
    for changed in ({"mode": "training"}, {"dtype": "bfloat16"}, {"device": "cuda"}):
        assert usual_corrections(SimulatedBench(cache=cache, **changed)) == {}


def test_computed_times_tell_nothing_of_measured_ones(tmp_path: Path) -> None:
    bench = SimulatedBench(cache=MeasurementCache(tmp_path))
    bench.can_time_members = False
    keep_sums(bench, "network", {"k": (1.0, 1.5)})
    bench.can_time_members = True
    assert usual_corrections(bench) == {}
    keep_sums(bench, "network", {"k": (1.0, 1.5)})
    bench.can_time_members = False
    assert usual_corrections(bench) == {}


def test_changes_are_those_of_the_last_network() -> None:
    costs = small_problem().costs
    block = next(p for p in costs.placed if not p.config["activation"])
    (alone_s,) = costs.forward_and_backward_s([block])
    for factor in (1.9, 1.1):
        costs = costs.learn([Tower(blocks=(block,))], [((part(CLASSES[0], factor * alone_s, 0.0),),)])
    sums = costs.changes([Tower(blocks=(block,))])
    (before_s, there_s) = sums[CLASSES[0]]
    assert there_s / before_s == pytest.approx(1.1, rel=0.02)
