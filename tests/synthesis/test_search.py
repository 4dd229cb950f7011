"""The search over designs: with a problem whose solutions are known at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_correct import BUDGET_S, SimulatedBench, problem
from test_rows import small_signature

from statsnet.errors import UsageError
from statsnet.signatures.target import target_of
from statsnet.synthesis import search as searching
from statsnet.synthesis.cache import MeasurementCache
from statsnet.synthesis.problem import Design, Problem
from statsnet.synthesis.rows import Rows

pytest.importorskip("optuna")


class Solver:
    """`prepare`, `correct` and `synthesize` in one; the error grows with the order, and for shorter steps."""

    def __init__(self) -> None:
        self.designs: list[Design] = []
        self.made: list[tuple[Design, float]] = []
        self.weight = 1.0
        self.fails_at: int | None = None

    def prepare(self, _mix: str, *, design: Design, share: float = 1.0, **_: Any) -> Problem:
        bench: Any = SimulatedBench()
        bench.cache, bench.environment = MeasurementCache(enabled=False), {}
        found = problem(Rows(target_of(small_signature())), bench, design)
        members = tuple(replace(m, weight=self.weight) for m in found.target.members)
        return replace(found, target=replace(found.target, members=members), budget_s=share * BUDGET_S)

    def correct(self, found: Problem, **_: Any) -> tuple[Any, list[dict[str, Any]]]:
        if len(self.designs) == self.fails_at:
            raise KeyboardInterrupt
        self.designs.append(found.design)
        error = 1.0 + found.design.order - 0.5 * found.budget_s / BUDGET_S
        latency = SimpleNamespace(latency_s=found.budget_s)
        whole = SimpleNamespace(signature=SimpleNamespace(measurements=[latency]))
        return SimpleNamespace(whole=whole), [{"measured_error": error}, {"measured_error": error + 1}]

    def synthesize(self, _mix: str, *, design: Design, share: float, **_: Any) -> Any:
        self.made.append((design, share))
        return SimpleNamespace(spec={"id": "sha256:1"})


@pytest.fixture
def solver(monkeypatch: pytest.MonkeyPatch) -> Solver:
    found = Solver()
    for name in ("prepare", "correct", "synthesize"):
        monkeypatch.setattr(searching, name, getattr(found, name))
    return found


def run(journal: Path, trials: int | None = 8, resume: bool = False, limit_s: float | None = None) -> Any:
    return searching.search("a:1", journal=journal, trials=trials, time_limit_s=limit_s, resume=resume)


def test_the_usual_design_comes_first_and_the_best_is_made(tmp_path: Path, solver: Solver) -> None:
    found = run(tmp_path / "j")
    assert solver.designs[0] == Design()
    assert found.usual == found.tried[0]
    assert found.chosen.error == min(t.error for t in found.tried)
    assert solver.made == [(found.chosen.design, found.chosen.share)]
    assert found.budget_s == BUDGET_S


def test_nothing_on_the_front_is_beaten_in_both(tmp_path: Path, solver: Solver) -> None:
    found = run(tmp_path / "j", trials=12)
    assert found.front
    for one in found.front:
        assert not any(
            t.error <= one.error and t.step_latency_s <= one.step_latency_s and t.design != one.design
            and (t.error, t.step_latency_s) != (one.error, one.step_latency_s)
            for t in found.tried
        )  # fmt: skip
    record = found.to_dict()
    assert [record["tried"][n]["number"] for n in record["front"]] == record["front"]


def test_an_interrupted_search_goes_on(tmp_path: Path, solver: Solver) -> None:
    solver.fails_at = 3
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "j")
    solver.fails_at = None
    found = run(tmp_path / "j", trials=5, resume=True)
    assert len(solver.designs) == len(found.tried) == 5
    assert found.usual is not None
    run(tmp_path / "j", trials=5, resume=True)
    assert len(solver.designs) == 5, "all were known"


def test_without_resume_it_begins_anew(tmp_path: Path, solver: Solver) -> None:
    run(tmp_path / "j", trials=2)
    assert len(run(tmp_path / "j", trials=3).tried) == 3
    assert len(solver.designs) == 5


def test_a_time_limit_tries_one_at_least(tmp_path: Path, solver: Solver) -> None:
    assert len(run(tmp_path / "j", trials=None, limit_s=1e-6).tried) == 1


def test_what_can_not_be_searched(tmp_path: Path, solver: Solver) -> None:
    with pytest.raises(UsageError, match="needs an end"):
        run(tmp_path / "j", trials=None)
    run(tmp_path / "j", trials=1)
    solver.weight = 0.5
    with pytest.raises(UsageError, match="another search"):
        run(tmp_path / "j", trials=2, resume=True)
