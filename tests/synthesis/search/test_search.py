"""The search over designs, on a machine that is simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from search_workshop import REPLACED, Workshop
from synthesis_builders import BUDGET_S, PROCESS_S, SimulatedBench, few_jumps, mix_of, small_signature

from statsnet.errors import MeasurementError, UsageError
from statsnet.signatures.mix import Mix
from statsnet.synthesis.problem import Design, ProxyRequest
from statsnet.synthesis.search import search as searching
from statsnet.synthesis.search.search import SearchLimits, SearchResult, front_of, search
from statsnet.synthesis.search.study import DesignTrial
from statsnet.synthesis.search.study_storage import OwnJournal

pytest.importorskip("optuna")


@pytest.fixture
def workshop(monkeypatch: pytest.MonkeyPatch) -> Workshop:
    few_jumps(monkeypatch)
    shop = Workshop()
    for name in REPLACED:
        monkeypatch.setattr(searching, name, getattr(shop, name))
    return shop


def run(
    journal: Path,
    trials: int | None = 8,
    resume: bool = False,
    limit_s: float | None = None,
    within_s: float | None = None,
    seed: int = 0,
    mix: Mix | None = None,
    bench: Any = None,
) -> SearchResult:
    bench = bench or SimulatedBench(within_s=within_s)
    limits = SearchLimits(trials=trials, time_limit_s=limit_s)
    request = ProxyRequest(mix_text="a:1", seed=seed)
    storage = OwnJournal(path=journal, resume=resume)
    return search(mix or mix_of(small_signature()), bench, request, storage=storage, limits=limits)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workshop, SearchResult]:
    """A whole search, for all who look at its result."""
    with pytest.MonkeyPatch.context() as patch:
        few_jumps(patch)
        shop = Workshop()
        for name in REPLACED:
            patch.setattr(searching, name, getattr(shop, name))
        return shop, run(tmp_path_factory.mktemp("search") / "j", trials=6)


def test_the_usual_design_comes_first_and_the_best_is_made(searched: tuple[Workshop, SearchResult]) -> None:
    workshop, result = searched
    assert result.usual == result.tried[0]
    assert result.usual.design == Design()
    assert len({t.design.size for t in result.tried}) > 1
    assert len(workshop.prepared) == 1
    assert {t.budget_s for t in result.tried} == {result.budget_s} == {BUDGET_S}
    fitting = [t.error for t in result.tried if t.step_latency_s <= 1.1 * BUDGET_S]
    assert result.chosen.error == min(fitting)
    ((made, trials),) = workshop.made
    assert made.design == result.chosen.design
    assert made.budget_s == result.chosen.share * BUDGET_S
    assert trials >= 2
    assert result.budget_s == BUDGET_S


def test_nothing_on_the_front_is_beaten_in_both(searched: tuple[Workshop, SearchResult]) -> None:
    _, result = searched
    assert result.front
    for one in result.front:
        assert not any(t.error < one.error and t.step_latency_s < one.step_latency_s for t in result.tried)
    assert sorted(result.front, key=lambda t: t.step_latency_s) == list(result.front)
    assert result.to_dict()["front"] == [t.number for t in result.front]


def test_errors_against_private_members_have_few_digits() -> None:
    trial = DesignTrial(number=0, design=Design(), share=1.0, error=0.0123456789, step_latency_s=1.0, budget_s=BUDGET_S)
    assert trial.to_dict(is_private=True)["error"] == 0.0123
    assert trial.to_dict(is_private=False)["error"] == 0.0123456789


def test_the_front_holds_equals_and_ends_where_errors_stay() -> None:
    def trial(number: int, error: float, step_s: float) -> DesignTrial:
        return DesignTrial(
            number=number, design=Design(), share=1.0, error=error, step_latency_s=step_s, budget_s=BUDGET_S
        )

    tried = [trial(i, *v) for i, v in enumerate([(0.1, 3.0), (0.3, 1.0), (0.3, 2.0), (0.1, 3.0), (0.2, 3.0)])]
    assert [t.number for t in front_of(tried)] == [1, 0, 3]
    assert front_of([]) == ()


def test_a_search_closes_what_it_opened(tmp_path: Path, workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, closed = [], []
    opening = OwnJournal.opened

    def open_it(journal: OwnJournal) -> Any:
        opened.append(opening(journal))
        return opened[-1]

    monkeypatch.setattr(OwnJournal, "opened", open_it)
    monkeypatch.setattr(OwnJournal, "close", lambda journal, storage: closed.append(storage))
    run(tmp_path / "j", trials=2)
    with pytest.raises(UsageError, match="another search"):
        run(tmp_path / "j", trials=3, resume=True, seed=1)
    assert len(opened) == 2
    assert all(one is other for one, other in zip(opened, closed, strict=True))


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


@pytest.mark.parametrize(("fails_at", "tried"), [(0, None), (3, 2)])
def test_a_design_that_fails_does_not_cost_those_before(
    fails_at: int, tried: int | None, tmp_path: Path, workshop: Workshop
) -> None:
    workshop.fails_at = fails_at
    workshop.failure = MeasurementError("a measuring process took more memory than there is", cause="9 GiB")
    bench = SimulatedBench()
    if tried is None:
        with pytest.raises(MeasurementError, match="more memory"):
            run(tmp_path / "j", bench=bench)
        return
    assert len(run(tmp_path / "j", bench=bench).tried) == tried
    assert bench.notes == [
        "a design could not be measured, so the search ends with it: "
        "a measuring process took more memory than there is: 9 GiB"
    ]


def test_members_are_timed_again_once_for_all_designs(searched: tuple[Workshop, SearchResult]) -> None:
    workshop, result = searched
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


@pytest.mark.parametrize(("processes", "designs"), [(6, 1), (6.5, 4)])
def test_the_deadline_ends_it(tmp_path: Path, workshop: Workshop, processes: float, designs: int) -> None:
    """The first design takes two networks, the next ones one each. A design is tried if twice as
    long as the last one took is left: there are the rounds after it, too."""
    assert len(run(tmp_path / "j", within_s=processes * PROCESS_S).tried) == designs


def test_what_can_not_be_searched(tmp_path: Path, workshop: Workshop) -> None:
    with pytest.raises(UsageError, match="needs an end"):
        run(tmp_path / "j", trials=None)
    run(tmp_path / "j", trials=1)
    prepared = len(workshop.prepared)
    with pytest.raises(UsageError, match="another search\ncause: its seed is 0, here 1"):
        run(tmp_path / "j", trials=2, resume=True, seed=1)
    with pytest.raises(UsageError, match="another search\ncause: its mix is another"):
        run(tmp_path / "j", trials=2, resume=True, mix=mix_of(small_signature(), small_signature()))
    assert len(workshop.prepared) == prepared, "refused before anything is measured"
