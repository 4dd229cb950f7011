"""A search over designs: it tries and measures what the integer program cannot choose, and makes the best proxy.

Optuna proposes designs, with two objectives: the measured error of the fit, and the step time. A storage keeps all
tried designs, so that a search can be resumed, and so that several machines can work on one (study.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any

from statsnet.deadline import Deadline
from statsnet.errors import MeasurementError, UsageError
from statsnet.progress import Progress
from statsnet.proxy.spec import Proxy
from statsnet.signatures.mix import Mix
from statsnet.synthesis.bench.bench import Bench
from statsnet.synthesis.chosen_network import build_and_measure
from statsnet.synthesis.confirming import last_line
from statsnet.synthesis.expected_time import NETWORKS, SEARCH, SOLVING, Pace
from statsnet.synthesis.next_network import NextNetwork
from statsnet.synthesis.problem import Design, Problem, ProxyRequest, for_design, prepare
from statsnet.synthesis.search.design_space import DESIGNS
from statsnet.synthesis.search.search_identity import SearchIdentity
from statsnet.synthesis.search.study import Claim, DesignTrial, Heartbeat, Study
from statsnet.synthesis.search.study_storage import StudyStorage
from statsnet.synthesis.synthesize import finish
from statsnet.synthesis.trials import Knowledge

FINAL_ROUNDS = 4
"""Small changes to the best network, once the search is over."""

IN_BUDGET = 1.1


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
            "tried": [t.to_dict(is_private=self.proxy.spec.level is not None) for t in self.tried],
            "front": [t.number for t in self.front],
            "chosen": self.chosen.number,
            "usual": self.usual.number if self.usual else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """When a search ends: after `trials` designs, of all workers and days, after `time_limit_s` of this one, or when
    another design and the rounds after it would take longer than the bench's deadline leaves (at least one is
    tried)."""

    trials: int | None = None
    time_limit_s: float | None = None


def search(
    mix: Mix,
    bench: Bench,
    request: ProxyRequest,
    *,
    storage: StudyStorage,
    limits: SearchLimits,
    study: str | None = None,
    heartbeat: Heartbeat = Heartbeat(),  # noqa: B008 - it is frozen
) -> SearchResult:
    """Try designs, then make the proxy of the best. Members' steps are timed again once for all designs, and once more
    if the search is resumed on another day: each design is judged by the times of its own day, and of its own machine.
    `study` names it in a storage that holds several.

    Raises as `prepare` and the storage do, UsageError if nothing limits the search or the study is another problem's.
    """
    if limits.trials is None and limits.time_limit_s is None:
        raise UsageError("a search needs an end", hint="give --trials, --time-limit or both")
    limit = Deadline.after(limits.time_limit_s)
    identity = SearchIdentity.of(mix, bench.setup, request, DESIGNS)

    def opened() -> Study:
        begun = Study(storage, identity, name=study, heartbeat=heartbeat, note=bench.setup.note)
        return ending.enter_context(closing(begun))

    with storage.held(), ExitStack() as ending:
        begun = opened() if storage.goes_on else None  # refused before anything is measured
        pool = ProblemPool(mix, bench, request)
        usual = pool.problem(Design(seed=request.seed), 1.0)
        worker = Worker(begun or opened(), pool, most=limits.trials, limit=limit)
        worker.work()
        return worker.result(usual)


class Worker:
    """One of those that work on a study: it tries designs until there are enough, or its time is over."""

    def __init__(self, study: Study, pool: ProblemPool, *, most: int | None, limit: Deadline) -> None:
        self._study, self._pool, self._most, self._limit = study, pool, most, limit

    def work(self) -> None:
        """Ends when as many designs as are asked for are finished, also those that others try; or when one cannot be
        measured. Raises MeasurementError if there is no other by then."""
        setup = self._pool.setup
        while not self._is_over(finished := len(self._study.tried())):
            if (claim := self._study.claim(self._most)) is not None:
                try:
                    self._try(claim)
                except MeasurementError as error:
                    if not self._study.tried():
                        raise
                    why = f"{error.message}: {last_line(error)}"
                    setup.note(f"a design could not be measured, so the search ends with it: {why}")
                    break
            else:
                setup.report(
                    Progress(stage=f"waiting for the last designs of others: {finished} of {self._most} are done")
                )
                self._study.wait()
        setup.stages.expect({SEARCH: 0.0})

    def _is_over(self, finished: int) -> bool:
        if not finished:
            return False
        enough = self._most is not None and finished >= self._most
        return enough or self._limit.passed or not self._pool.has_time

    def _try(self, claim: Claim) -> None:
        setup = self._pool.setup
        setup.stages.expect({SEARCH: self._expected_s(claim.position)})
        setup.report(Progress(stage=f"design {claim.position + 1}"))
        with self._study.trying(claim):
            budget_s = self._pool.problem(claim.design, 1.0).budget_s
            values = self._pool.try_out(claim.design, claim.share)
        if not self._study.finish(claim, values, budget_s):
            setup.note(
                "a design does not count: others heard nothing of this worker for so long that they took it over"
            )

    def _expected_s(self, position: int) -> float:
        """Seconds that the search goes on for, by the last design's."""
        rest_s = math.inf if self._most is None else (self._most - position) * self._pool.trial_s
        return max(min(rest_s, self._limit.left_s), 0.0)

    def result(self, usual: Problem) -> SearchResult:
        """The proxy of the best design. `usual` is the problem of the usual one."""
        tried = self._study.tried()
        fitting = [t for t in tried if t.step_latency_s <= IN_BUDGET * t.budget_s] or tried
        chosen = min(fitting, key=lambda t: t.error)
        if others := len(tried) - self._study.tried_here:
            self._pool.setup.note(f"{others} of {len(tried)} designs were tried elsewhere or before")
        return SearchResult(
            proxy=self._pool.finish(chosen.design, chosen.share),
            budget_s=usual.budget_s,
            tried=tuple(tried),
            front=front_of(tried),
            chosen=chosen,
            usual=next((t for t in tried if t.share == 1.0 and t.design == usual.design), None),
        )


def front_of(tried: Iterable[DesignTrial]) -> tuple[DesignTrial, ...]:
    """Those to which no other is at least equal in both objectives and better in one; in the order of their steps."""
    front: list[DesignTrial] = []
    for trial in sorted(tried, key=lambda t: (t.step_latency_s, t.error)):
        last = front[-1] if front else None
        if last is None or trial.error < last.error or _values(trial) == _values(last):
            front.append(trial)
    return tuple(front)


def _values(trial: DesignTrial) -> tuple[float, float]:
    return trial.error, trial.step_latency_s


class ProblemPool:
    """Problems of one target, one for each size of candidates. Designs of one size share what is learnt of blocks in
    place."""

    def __init__(self, mix: Mix, bench: Bench, request: ProxyRequest) -> None:
        self.setup = bench.setup
        self._mix, self._bench, self._request = mix, bench, request
        self._problems: dict[float, Problem] = {}
        self._known: dict[float, Knowledge] = {}
        self.trial_s = sum(Pace().ahead(2, self.setup.effort).values())
        """Seconds that the last design took; an estimate before there was one."""

    @property
    def has_time(self) -> bool:
        """Whether another design, and a round and the confirmation after it, would end before the deadline."""
        return self.setup.deadline.leaves(2 * self.trial_s)

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
        setup = self.setup
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
        effort = self.setup.effort
        if known is None:
            return finish(problem)
        return finish(problem, effort=replace(effort, rounds=min(FINAL_ROUNDS, effort.rounds)), known=known)
