"""A search over designs: what the integer program cannot see is tried, measured, and the best proxy is made.

Optuna proposes, with two objectives: the measured error of the fit, and the length of a step. All that was tried is in
a journal, so that a search can be gone on with.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from statsnet.errors import UsageError
from statsnet.proxy.spec import Proxy
from statsnet.synthesis.live_bench import Report
from statsnet.synthesis.problem import Design, Problem, prepare
from statsnet.synthesis.rounds import NextNetwork, Trial, build_and_measure
from statsnet.synthesis.synthesize import finish

SIZES = (0.6, 1.0, 1.6)
SHARES = (0.5, 0.7, 1.0)
"""Of the budget: a shorter step that fits as well is the better proxy."""

DISTINCT = (24, 34, 44, 60)
ORDERS = 6
SEEDS = 3
FINAL_ROUNDS = 4
"""Small changes to the best network, once the search is over."""

IN_BUDGET = 1.1
STUDY = "statsnet"


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignTrial:
    """One design: `error` is the measured objective of the fit, `share` the part that was asked for of `budget_s`, the
    budget of the day on which it was tried: members are as fast as the machine is."""

    number: int
    design: Design
    share: float
    error: float
    step_latency_s: float
    budget_s: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search came to. `tried` in their order; `front` are those that no other one beats in both objectives;
    `chosen` has the least error of those that keep to the budget; `usual` is the design of a synthesis without
    search."""

    proxy: Proxy
    budget_s: float
    tried: tuple[DesignTrial, ...]
    front: tuple[DesignTrial, ...]
    chosen: DesignTrial
    usual: DesignTrial | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "statsnet.search",
            "schema_version": 1,
            "spec": self.proxy.spec["id"],
            "budget_s": self.budget_s,
            "tried": [t.to_dict() for t in self.tried],
            "front": [t.number for t in self.front],
            "chosen": self.chosen.number,
            "usual": self.usual.number if self.usual else None,
        }


def search(
    mix_text: str,
    *,
    journal: Path,
    trials: int | None,
    time_limit_s: float | None,
    resume: bool = False,
    seed: int = 0,
    report: Report = lambda _stage, _share: None,
    **options: Any,
) -> SearchResult:
    """Try designs until `trials` are known, those of the journal counted, or `time_limit_s` is over (one at least is
    tried); then make the proxy of the best. `options` are those of `prepare`. Members' steps are timed again once, for
    all designs; taken up on another day, once more: each design was judged by the times of its own day.

    Raises as `synthesize` does, UsageError where nothing limits the search or the journal is another problem's,
    ImportError where optuna is not installed.
    """
    if trials is None and time_limit_s is None:
        raise UsageError("a search needs an end", hint="give --trials, --time-limit or both")
    begin = time.monotonic()
    workshop = ProblemPool(mix_text, seed, report, options)
    study = _study(journal, _identity(workshop.problem(Design(seed=seed), 1.0), options), resume, seed)
    done = [t for t in study.trials if t.values]
    if not done:
        usual = {**asdict(Design()), "share": 1.0}
        study.enqueue_trial(usual, skip_if_exists=True)

    def objective(trial: Any) -> tuple[float, float]:
        report(f"design {trial.number + 1}", _progress(trial.number, trials, begin, time_limit_s))
        design, share = _proposed(trial, seed)
        trial.set_user_attr("budget_s", workshop.problem(design, 1.0).budget_s)
        return workshop.try_out(design, share)

    if not done:
        study.optimize(objective, n_trials=1)
    left = None if trials is None else trials - max(len(done), 1)
    left_s = None if time_limit_s is None else time_limit_s - (time.monotonic() - begin)
    if (left is None or left > 0) and (left_s is None or left_s > 0):
        study.optimize(objective, n_trials=left, timeout=left_s)
    tried = [_tried(t, seed) for t in study.trials if t.values]
    budget_s = workshop.problem(Design(seed=seed), 1.0).budget_s
    fitting = [t for t in tried if t.step_latency_s <= IN_BUDGET * t.budget_s] or tried
    chosen = min(fitting, key=lambda t: t.error)
    front = {t.number for t in study.best_trials}
    return SearchResult(
        proxy=workshop.finish(chosen.design, chosen.share),
        budget_s=budget_s,
        tried=tuple(tried),
        front=tuple(sorted((t for t in tried if t.number in front), key=lambda t: t.step_latency_s)),
        chosen=chosen,
        usual=next((t for t in tried if t.share == 1.0 and t.design == Design(seed=seed)), None),
    )


class ProblemPool:
    """Problems of one target, one for each size of candidates; those of a size share what is learnt of blocks in
    place."""

    def __init__(self, mix_text: str, seed: int, report: Report, options: dict[str, Any]) -> None:
        self._prepare = partial(prepare, mix_text, report=report, **options)
        self._seed = seed
        self._problems: dict[float, Problem] = {}
        self._trials: dict[float, list[Trial]] = defaultdict(list)

    def problem(self, design: Design, share: float) -> Problem:
        if design.size not in self._problems:
            self._problems[design.size] = self._prepared(Design(size=design.size, seed=self._seed))
        whole = self._problems[design.size]
        return replace(whole, design=design, budget_s=share * whole.budget_s)

    def _prepared(self, design: Design) -> Problem:
        first = next(iter(self._problems.values()), None)
        found = self._prepare(design=design, retime=first is None)
        if first is None:
            return found
        timed = ("target", "rows", "budget_s", "pace", "not_retimed")
        return replace(found, **{name: getattr(first, name) for name in timed})

    def try_out(self, design: Design, share: float) -> tuple[float, float]:
        """Error and seconds of a design's network; the first of its size is measured twice, for nothing is known of
        blocks in place before."""
        problem, known = self.problem(design, share), self._trials[design.size]
        for _ in range(1 if known else 2):
            counts, solution = NextNetwork(problem=problem, trials=known).free()
            known.append(build_and_measure(problem, counts, solution))
        error = known[-1].error(problem.rows, problem.budget_s)
        return error, known[-1].whole.signature.measurements[0].latency_s

    def finish(self, design: Design, share: float) -> Proxy:
        """From all networks of its size that were tried."""
        trials = self._trials[design.size]
        problem = self.problem(design, share)
        return finish(problem, rounds=FINAL_ROUNDS, trials=trials) if trials else finish(problem)


def _study(journal: Path, identity: str, resume: bool, seed: int) -> Any:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if not resume:
        journal.unlink(missing_ok=True)
    journal.parent.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name=STUDY,
        directions=["minimize", "minimize"],
        sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=6, multivariate=True),
        storage=JournalStorage(JournalFileBackend(str(journal))),
        load_if_exists=True,
    )
    if study.user_attrs.setdefault("problem", identity) != identity:
        raise UsageError(
            f"'{journal}' is the journal of another search",
            cause="its mix, mode, budget or machine is another",
            hint="leave --resume away, or choose another folder",
        )
    study.set_user_attr("problem", identity)
    return study


def _identity(problem: Problem, options: Mapping[str, Any]) -> str:
    return problem.bench.cache.key(
        members=[(m.signature.id, m.weight) for m in problem.target.members],
        mode=problem.bench.mode,
        wanted=[options.get("budget_s"), options.get("compression")],
        environment=problem.bench.environment,
    )


def _proposed(trial: Any, seed: int) -> tuple[Design, float]:
    design = Design(
        size=trial.suggest_categorical("size", SIZES),
        max_distinct=trial.suggest_categorical("max_distinct", DISTINCT),
        order=trial.suggest_int("order", 0, ORDERS - 1),
        seed=seed + trial.suggest_int("seed", 0, SEEDS - 1),
    )
    return design, trial.suggest_categorical("share", SHARES)


def _progress(number: int, trials: int | None, begin: float, time_limit_s: float | None) -> float:
    shares = [number / trials] if trials else []
    shares += [(time.monotonic() - begin) / time_limit_s] if time_limit_s else []
    return min(max(shares), 1.0)


def _tried(trial: Any, seed: int) -> DesignTrial:
    values = dict(trial.params)
    share = values.pop("share")
    values["seed"] += seed
    error, step_latency_s = trial.values
    return DesignTrial(
        number=trial.number,
        design=Design(**values),
        share=share,
        error=error,
        step_latency_s=step_latency_s,
        budget_s=trial.user_attrs["budget_s"],
    )
