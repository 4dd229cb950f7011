"""A search over designs: it tries and measures what the integer program cannot choose, and makes the best proxy.

Optuna proposes designs, with two objectives: the measured error of the fit, and the step time. A journal keeps all
tried designs, so that a search can be resumed.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from statsnet.errors import UsageError
from statsnet.progress import Progress
from statsnet.proxy.spec import Proxy
from statsnet.signatures.mix import Mix
from statsnet.synthesis.bench import Bench
from statsnet.synthesis.expected_time import NETWORKS, SEARCH, SOLVING, Pace
from statsnet.synthesis.journal import held_journal, ready_journal
from statsnet.synthesis.problem import Design, Problem, ProxyRequest, for_design, prepare
from statsnet.synthesis.rounds import NextNetwork, build_and_measure
from statsnet.synthesis.synthesize import finish
from statsnet.synthesis.trials import Knowledge

SIZES = (0.6, 1.0, 1.6)
SHARES = (0.5, 0.7, 1.0)
"""Shares of the budget: a shorter step that fits as well makes a better proxy."""

DISTINCT = (24, 34, 44, 64)
ORDERS = 6
SEEDS = 3
FINAL_ROUNDS = 4
"""Small changes to the best network, once the search is over."""

IN_BUDGET = 1.1
STUDY = "statsnet"


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignTrial:
    """One tried design. `error` is the fit's measured objective, `share` the part of `budget_s` that was asked for.
    `budget_s` is the budget of that day, because members' times depend on the machine's speed."""

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
    """The result of a search. `tried` are in their order; `front` are those that no other beats in both objectives;
    `chosen` has the least error of those within the budget; `usual` is the design of a synthesis without search."""

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
            "spec": self.proxy.spec.id,
            "budget_s": self.budget_s,
            "tried": [t.to_dict() for t in self.tried],
            "front": [t.number for t in self.front],
            "chosen": self.chosen.number,
            "usual": self.usual.number if self.usual else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """When a search ends: after `trials` designs, including the journal's, after `time_limit_s`, or when another design
    and the rounds after it would take longer than the bench's deadline leaves (at least one is tried). With `resume`,
    it continues the journal."""

    trials: int | None = None
    time_limit_s: float | None = None
    resume: bool = False


def search(mix: Mix, bench: Bench, request: ProxyRequest, *, journal: Path, limits: SearchLimits) -> SearchResult:
    """Try designs, then make the proxy of the best. Members' steps are timed again once for all designs, and once more
    if the search is resumed on another day: each design is judged by the times of its own day.

    Raises as `prepare` and `held_journal` do, UsageError if nothing limits the search or the journal is another
    problem's.
    """
    if limits.trials is None and limits.time_limit_s is None:
        raise UsageError("a search needs an end", hint="give --trials, --time-limit or both")
    with held_journal(journal):
        return _searched(mix, bench, request, journal, limits)


def _searched(mix: Mix, bench: Bench, request: ProxyRequest, journal: Path, limits: SearchLimits) -> SearchResult:
    begin, setup = time.monotonic(), bench.setup
    seed = request.seed
    usual_design = Design(seed=seed)
    pool = ProblemPool(mix, bench, request)
    identity = _identity(pool.problem(usual_design, 1.0), request)
    ready_journal(journal, resume=limits.resume)
    study = _study(journal, identity, seed)
    done = [t for t in study.trials if t.values]
    if not done:
        study.enqueue_trial({**asdict(Design()), "share": 1.0}, skip_if_exists=True)

    def objective(trial: Any) -> tuple[float, float]:
        setup.stages.expect({SEARCH: _expected_s(trial.number, limits, begin, pool.trial_s)})
        setup.report(Progress(stage=f"design {trial.number + 1}"))
        design, share = _proposed(trial, seed)
        trial.set_user_attr("budget_s", pool.problem(design, 1.0).budget_s)
        return pool.try_out(design, share)

    if not done:
        study.optimize(objective, n_trials=1)
    left = None if limits.trials is None else limits.trials - max(len(done), 1)
    left_s = None if limits.time_limit_s is None else limits.time_limit_s - (time.monotonic() - begin)
    if (left is None or left > 0) and (left_s is None or left_s > 0) and pool.has_time:
        stop = [lambda study, _: None if pool.has_time else study.stop()]
        study.optimize(objective, n_trials=left, timeout=left_s, callbacks=stop)
    setup.stages.expect({SEARCH: 0.0})
    tried = [_tried(t, seed) for t in study.trials if t.values]
    fitting = [t for t in tried if t.step_latency_s <= IN_BUDGET * t.budget_s] or tried
    chosen = min(fitting, key=lambda t: t.error)
    front = {t.number for t in study.best_trials}
    return SearchResult(
        proxy=pool.finish(chosen.design, chosen.share),
        budget_s=pool.problem(usual_design, 1.0).budget_s,
        tried=tuple(tried),
        front=tuple(sorted((t for t in tried if t.number in front), key=lambda t: t.step_latency_s)),
        chosen=chosen,
        usual=next((t for t in tried if t.share == 1.0 and t.design == usual_design), None),
    )


class ProblemPool:
    """Problems of one target, one for each size of candidates. Designs of one size share what is learnt of blocks in
    place."""

    def __init__(self, mix: Mix, bench: Bench, request: ProxyRequest) -> None:
        self._mix, self._bench, self._request = mix, bench, request
        self._problems: dict[float, Problem] = {}
        self._known: dict[float, Knowledge] = {}
        self.trial_s = sum(Pace().ahead(1, bench.setup.effort).values())
        """Seconds that the last design took; an estimate before there was one."""

    @property
    def has_time(self) -> bool:
        """Whether another design, and a round and the confirmation after it, would end before the deadline."""
        return self._bench.setup.deadline.leaves(2 * self.trial_s)

    def problem(self, design: Design, share: float) -> Problem:
        if design.size not in self._problems:
            self._problems[design.size] = self._prepared(Design(size=design.size, seed=self._request.seed))
        whole = self._problems[design.size]
        asked_s = None if whole.asked_budget_s is None else share * whole.asked_budget_s
        return replace(whole, design=design, budget_s=share * whole.budget_s, asked_budget_s=asked_s)

    def _prepared(self, design: Design) -> Problem:
        first = next(iter(self._problems.values()), None)
        return for_design(first, design) if first else prepare(self._mix, self._bench, self._request, design)

    def try_out(self, design: Design, share: float) -> tuple[float, float]:
        """Error and step time of a design's network. The first design of a size takes two networks, because nothing is
        known of blocks in place before."""
        setup = self._bench.setup
        begin_s = setup.stages.clock()
        problem = self.problem(design, share)
        known = self._known.get(design.size)
        for _ in range(1 if known else 2):
            known = known or Knowledge(costs=problem.costs)
            with setup.stages.stage(SOLVING):
                choice = NextNetwork(problem=problem, known=known).free()
            with setup.stages.stage(NETWORKS):
                known = build_and_measure(problem, choice, known, processes=setup.effort.round_processes)
        assert known is not None
        self._known[design.size] = known
        self.trial_s = setup.stages.clock() - begin_s
        trial = known.trials[-1]
        return trial.error(problem.rows, problem.budget_s), trial.latency_s

    def finish(self, design: Design, share: float) -> Proxy:
        """The proxy, starting from all tried networks of the design's size."""
        problem, known = self.problem(design, share), self._known.get(design.size)
        effort = self._bench.setup.effort
        if known is None:
            return finish(problem)
        return finish(problem, effort=replace(effort, rounds=min(FINAL_ROUNDS, effort.rounds)), known=known)


def _study(journal: Path, identity: str, seed: int) -> Any:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        study_name=STUDY,
        directions=["minimize", "minimize"],
        sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=6, multivariate=True),
        storage=JournalStorage(JournalFileBackend(str(journal.resolve()))),
        load_if_exists=True,
    )
    if study.user_attrs.setdefault("problem", identity) != identity:
        raise UsageError(
            f"'{journal}' is the journal of another search",
            cause="its mix, mode, budget or machine is another",
            hint="leave out --resume, or choose another folder",
        )
    study.set_user_attr("problem", identity)
    return study


def _identity(problem: Problem, request: ProxyRequest) -> str:
    setup = problem.bench.setup
    return setup.cache.key(
        members=[(m.signature.id, m.weight) for m in problem.target.members],
        mode=setup.mode,
        wanted=[request.budget_s, request.compression],
        environment=setup.environment,
    )


def _proposed(trial: Any, seed: int) -> tuple[Design, float]:
    design = Design(
        size=trial.suggest_categorical("size", SIZES),
        max_distinct=trial.suggest_categorical("max_distinct", DISTINCT),
        order=trial.suggest_int("order", 0, ORDERS - 1),
        seed=seed + trial.suggest_int("seed", 0, SEEDS - 1),
    )
    return design, trial.suggest_categorical("share", SHARES)


def _expected_s(number: int, limits: SearchLimits, begin: float, trial_s: float) -> float:
    """Seconds that the search goes on for, by the last design's."""
    left_s = [(limits.trials - number) * trial_s] if limits.trials else []
    left_s += [limits.time_limit_s - (time.monotonic() - begin)] if limits.time_limit_s else []
    return max(min(left_s), 0.0)


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
