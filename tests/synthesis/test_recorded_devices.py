"""Real devices as rows of the program, and the sizes and budgets that go with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from synthesis_builders import GEMM

from statsnet.signatures.model import Mode
from statsnet.signatures.target import Target
from statsnet.synthesis.budget import usual_budget_of
from statsnet.synthesis.candidates.candidates import StepRoom, candidates, nearest_sizes
from statsnet.synthesis.candidates.sources import by_importance, sources
from statsnet.synthesis.costs.loads import StepLoad
from statsnet.synthesis.program.elsewhere import Fate
from statsnet.synthesis.program.matched_characteristics import MatchedCharacteristics


@dataclass(frozen=True)
class Two:
    """On the first device products take half the time and all else twice; on the second everything thrice."""

    names: tuple[str, ...] = ("one", "two")

    def fate(self, op: str, phase: str, args: Sequence[Any], outputs: Sequence[Any]) -> Fate:
        return Fate(factors=(0.5 if op == GEMM.op else 2.0, 3.0), risk=0.1)


def test_rows_of_real_devices_take_the_place_of_modelled_ones(target: Target) -> None:
    rows = MatchedCharacteristics(target, elsewhere=Two())
    groups = {group for group, _ in rows.keys}
    assert {"recorded", "risk"} <= groups
    assert "device" not in groups
    value = dict(zip(rows.keys, rows.target, strict=True))
    assert value["recorded", "one"] == value["recorded", "two"] == pytest.approx(1.0)


def test_the_time_elsewhere_follows_the_operators(target: Target) -> None:
    """The target: 0.6 s of products, 0.2 s of relu, 0.2 s in between. Twice the products are 0.6 s more here."""
    rows = MatchedCharacteristics(target, elsewhere=Two())
    more = tuple(replace(g, time_s=2 * g.time_s) if g.category == "gemm" else g for g in rows.load.groups)
    vector = dict(zip(rows.keys, rows.vector(StepLoad(groups=more, framework_s=rows.load.framework_s)), strict=True))
    usual = (0.6 * 0.5 + 0.2 * 2.0) / 0.8
    assert vector["recorded", "one"] == pytest.approx((1.2 * 0.5 + 0.2 * 2.0) / usual + 0.2)
    assert vector["recorded", "two"] == pytest.approx(1.6)
    assert vector["risk", ""] == pytest.approx(0.1 * 1.4)
    unknown = tuple(replace(g, fate=None) for g in rows.load.groups)
    vector = dict(zip(rows.keys, rows.vector(StepLoad(groups=unknown, framework_s=0.2)), strict=True))
    assert vector["recorded", "one"] == pytest.approx(1.0), "what is not known changes like the target"


def test_own_sizes_come_first(target: Target) -> None:
    chosen = candidates(target, budget_s=0.1, own_sizes=True)
    assert chosen[0].scale == 1.0
    assert {c.scale for c in chosen if c.kind == "linear"} > {1.0}
    longest_s = candidates(target, budget_s=0.1, own_sizes=True, limit=1)[0].time_s
    cut = candidates(target, budget_s=longest_s, own_sizes=True)
    assert all(c.time_s <= longest_s / 3 * 1.01 or c.kind != "linear" for c in cut), "too long at its own size"


def test_the_usual_budget_of_a_gpu(target: Target) -> None:
    """One call of each operator: 1.5 and 0.5 ms of a step of 10 ms. At least 20, at most 50 ms, and at most half of the
    step."""
    by_factor = {1: 5e-3, 3: 15e-3, 6: 20e-3, 15: 30e-3, 100: 50e-3}
    for factor, budget_s in by_factor.items():
        suite = target.scale_times(factor)
        assert usual_budget_of(suite, own_sizes=True) == pytest.approx(budget_s), factor


def in_mode(target: Target, mode: Mode) -> Target:
    members = tuple(replace(m, signature=replace(m.signature, mode=mode)) for m in target.members)
    return replace(target, members=members)


def test_the_usual_budget_of_a_cpu(target: Target) -> None:
    """Of a step of 10 ms: a 53rd, but at least 80 ms (in training, 160 ms) or all of it, and 20 ms."""
    inference = {1: 20e-3, 2: 20e-3, 6: 60e-3, 8: 80e-3, 400: 80e-3, 530: 100e-3}
    training = {1: 20e-3, 8: 80e-3, 12: 120e-3, 400: 160e-3, 1060: 200e-3}
    by_mode: dict[Mode, dict[int, float]] = {"inference": inference, "training": training}
    for mode, by_factor in by_mode.items():
        for factor, budget_s in by_factor.items():
            suite = with_calls(in_mode(target, mode).scale_times(factor), 1000)
            assert usual_budget_of(suite, own_sizes=False) == pytest.approx(budget_s), (mode, factor)


def with_calls(target: Target, factor: float) -> Target:
    """So many times as many calls in the same time."""
    return replace(target, clusters=tuple(replace(c, calls_per_s=factor * c.calls_per_s) for c in target.clusters))


def test_a_usual_step_on_a_cpu_has_room_for_long_calls(target: Target) -> None:
    """Of a suite of 4 s, three quarters of the operators' time lie in calls of 600 ms, the rest in calls of 200 ms.
    Twelve of them, of which no more than 20 ms counts for each, or 40 ms in training; and a quarter of the suite."""
    suite = target.scale_times(400)
    by_calls = {100: 80e-3, 50: 12 * 10e-3, 30: 12 * (15 + 5 / 3) * 1e-3, 25: 12 * 17e-3, 10: 240e-3, 1: 240e-3}
    for calls, budget_s in by_calls.items():
        assert usual_budget_of(with_calls(suite, calls), own_sizes=False) == pytest.approx(budget_s), calls
    training = with_calls(in_mode(suite, "training"), 15)
    assert usual_budget_of(training, own_sizes=False) == pytest.approx(12 * (30 + 10 / 3) * 1e-3)
    assert usual_budget_of(target.scale_times(40), own_sizes=False) == pytest.approx(100e-3), "a quarter of 400 ms"


@pytest.mark.parametrize("changes", [{"phase": "optimizer"}, {"op": "c10d.barrier.default"}, {"time_share": 0.0}])
def test_only_calls_of_the_step_itself_make_it_longer(changes: dict[str, Any], target: Target) -> None:
    """Optimizers' calls go by parameters, collectives by rules of their own."""
    suite = target.scale_times(400)
    others = replace(suite, clusters=tuple(replace(c, **changes) for c in suite.clusters))
    assert usual_budget_of(others, own_sizes=False) == pytest.approx(80e-3)


def test_an_own_size_that_is_too_much_of_its_kind_has_smaller_ones_beside_it(target: Target) -> None:
    """Of one kind of operator, a hundredth of the time is wanted, and one call takes half of a hundredth, or more."""
    linear = next(s for s, _ in by_importance(sources(target)) if s.kind == "linear")
    for calls, sizes in ((2.0, 1), (0.5, 4)):
        rare = replace(linear, share=0.01, time_s=0.01 / calls)
        first = nearest_sizes(rare, StepRoom(budget_s=1.0, mode="inference"), own_sizes=True)
        assert first[0].config == linear.config and len(first) == sizes
        assert all(c.time_s <= 0.0125 for c in first[1:])
