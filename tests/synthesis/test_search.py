"""The search over designs, on a machine that is simulated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from synthesis_builders import BUDGET_S, PROCESS_S, SimulatedBench, mix_of, small_problem, small_signature

from statsnet.errors import UsageError
from statsnet.signatures.mix import Mix
from statsnet.synthesis import search as searching
from statsnet.synthesis.problem import Design, Problem, ProxyRequest
from statsnet.synthesis.rounds import build_and_measure
from statsnet.synthesis.search import SearchLimits, SearchResult, search
from statsnet.synthesis.trials import Knowledge

pytest.importorskip("optuna")


class Workshop:
    """Problems on the simulated machine, and what is done with them."""

    def __init__(self) -> None:
        self.attempts = 0
        self.made: list[tuple[Problem, int]] = []
        self.weight = 1.0
        self.slowness = 1.0
        self.prepared: list[Design] = []
        self.fails_at: int | None = None

    def prepare(self, _mix: Mix, bench: Any, request: ProxyRequest, design: Design) -> Problem:
        self.prepared.append(design)
        problem = small_problem(bench, design)
        members = tuple(replace(m, weight=self.weight) for m in problem.target.members)
        target = replace(problem.target, members=members)
        return replace(problem, target=target, budget_s=self.slowness * problem.budget_s)

    def for_design(self, problem: Problem, design: Design) -> Problem:
        """As if blocks of other sizes had been measured."""
        return replace(problem, design=design, costs=small_problem(problem.bench, design).costs)

    def build_and_measure(self, *args: Any, **more: Any) -> Knowledge:
        if self.attempts == self.fails_at:
            raise KeyboardInterrupt
        self.attempts += 1
        return build_and_measure(*args, **more)

    def finish(self, problem: Problem, *, known: Knowledge | None = None, **_: Any) -> Any:
        self.made.append((problem, len(known.trials) if known else 0))
        return SimpleNamespace(spec=SimpleNamespace(id="sha256:1"))


@pytest.fixture
def workshop(monkeypatch: pytest.MonkeyPatch) -> Workshop:
    shop = Workshop()
    for name in ("prepare", "for_design", "build_and_measure", "finish"):
        monkeypatch.setattr(searching, name, getattr(shop, name))
    return shop


def run(
    journal: Path,
    trials: int | None = 8,
    resume: bool = False,
    limit_s: float | None = None,
    within_s: float | None = None,
) -> SearchResult:
    bench: Any = SimulatedBench(within_s=within_s)
    limits = SearchLimits(trials=trials, time_limit_s=limit_s, resume=resume)
    request = ProxyRequest(mix_text="a:1")
    return search(mix_of(small_signature()), bench, request, journal=journal, limits=limits)


def test_the_usual_design_comes_first_and_the_best_is_made(tmp_path: Path, workshop: Workshop) -> None:
    result = run(tmp_path / "j")
    assert result.usual == result.tried[0]
    assert result.usual.design == Design()
    assert len({t.design for t in result.tried}) > 1
    fitting = [t.error for t in result.tried if t.step_latency_s <= 1.1 * BUDGET_S]
    assert result.chosen.error == min(fitting)
    ((made, trials),) = workshop.made
    assert made.design == result.chosen.design
    assert made.budget_s == result.chosen.share * BUDGET_S
    assert trials >= 2
    assert result.budget_s == BUDGET_S


def test_nothing_on_the_front_is_beaten_in_both(tmp_path: Path, workshop: Workshop) -> None:
    result = run(tmp_path / "j", trials=10)
    assert result.front
    for one in result.front:
        assert not any(t.error < one.error and t.step_latency_s < one.step_latency_s for t in result.tried)
    assert sorted(result.front, key=lambda t: t.step_latency_s) == list(result.front)
    assert result.to_dict()["front"] == [t.number for t in result.front]


def test_an_interrupted_search_goes_on(tmp_path: Path, workshop: Workshop) -> None:
    workshop.fails_at = 3
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "j")
    workshop.fails_at = None
    result = run(tmp_path / "j", trials=4, resume=True)
    assert len(result.tried) == 4
    assert result.usual is not None
    attempts = workshop.attempts
    run(tmp_path / "j", trials=4, resume=True)
    assert workshop.attempts == attempts, "all were known"
    assert workshop.made[-1][1] == 0, "no network of this search was measured: it is made from nothing"


def test_members_are_timed_again_once_for_all_designs(tmp_path: Path, workshop: Workshop) -> None:
    result = run(tmp_path / "j", trials=12)
    assert len({t.design.size for t in result.tried}) > 1
    assert len(workshop.prepared) == 1
    assert {t.budget_s for t in result.tried} == {BUDGET_S}


def test_on_a_slower_day_a_search_goes_on_with_that_days_times(tmp_path: Path, workshop: Workshop) -> None:
    run(tmp_path / "j", trials=2)
    workshop.slowness = 2.0
    result = run(tmp_path / "j", trials=4, resume=True)
    assert [t.budget_s / BUDGET_S for t in result.tried] == [1.0, 1.0, 2.0, 2.0]
    assert result.budget_s == 2 * BUDGET_S
    fitting = [t.error for t in result.tried if t.step_latency_s <= 1.1 * t.budget_s]
    assert result.chosen.error == min(fitting)


def test_without_resume_it_begins_anew(tmp_path: Path, workshop: Workshop) -> None:
    run(tmp_path / "j", trials=2)
    assert len(run(tmp_path / "j", trials=3).tried) == 3


def test_a_time_limit_tries_one_at_least(tmp_path: Path, workshop: Workshop) -> None:
    assert len(run(tmp_path / "j", trials=None, limit_s=1e-6).tried) == 1


@pytest.mark.parametrize(("processes", "designs"), [(1, 1), (12, 1), (13, 4), (1000, 8)])
def test_the_deadline_ends_it(tmp_path: Path, workshop: Workshop, processes: float, designs: int) -> None:
    """The first design takes two networks of two processes, the next ones one each. A design is tried if twice as
    long as the last one took is left: there are the rounds after it, too."""
    assert len(run(tmp_path / "j", within_s=processes * PROCESS_S).tried) == designs


def test_what_can_not_be_searched(tmp_path: Path, workshop: Workshop) -> None:
    with pytest.raises(UsageError, match="needs an end"):
        run(tmp_path / "j", trials=None)
    run(tmp_path / "j", trials=1)
    workshop.weight = 0.5
    with pytest.raises(UsageError, match="another search"):
        run(tmp_path / "j", trials=2, resume=True)
