"""Solve, build, measure the whole network, learn from it, and again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from statsnet.errors import MeasurementError
from statsnet.progress import Progress
from statsnet.signatures.documents import Round
from statsnet.synthesis.chosen_network import build_and_measure
from statsnet.synthesis.confirming import confirmed, last_line
from statsnet.synthesis.costs.block_costs import BlockCosts
from statsnet.synthesis.effort import Effort
from statsnet.synthesis.expected_time import CONFIRMING, NETWORKS, SOLVING, Pace, likely_rounds
from statsnet.synthesis.next_network import Choice, NextNetwork, Scope
from statsnet.synthesis.problem import Problem
from statsnet.synthesis.trials import Knowledge, Trial, gained_little
from statsnet.units import plural

FROM_CACHE_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """The chosen network, an entry for each measured one, and what is known of blocks in the end: operators by
    themselves may have been added."""

    best: Trial
    rounds: tuple[Round, ...]
    costs: BlockCosts


def solve_in_rounds(problem: Problem, *, effort: Effort | None = None, known: Knowledge | None = None) -> Solved:
    """The chosen network, measured once more (`confirmed`).

    Each round learns the blocks' times in place and, for the program's right-hand side, what belongs to no block, such
    as the framework time that a network has beyond its blocks'. The first rounds choose freely, later ones near the
    best network so far: among blocks that networks held, and where these promise or gain little, also among other
    sizes. Networks that are already known (`known`) replace the first rounds. The rounds end with the effort's
    (default: the bench's), with a good network, when a round gained little and categories and kernel classes meet their
    bars or no scope promises more, or when another one and the confirmation would take longer than the deadline leaves.
    """
    setup, effort = problem.bench.setup, effort or problem.bench.setup.effort
    rounds = _Rounds(
        problem=problem,
        effort=effort,
        known=known or Knowledge(costs=problem.costs),
        scope=Scope.SEEN if known else Scope.ALL,
    )
    earlier = len(rounds.known.trials)
    while (number := len(rounds.known.trials) - earlier) < effort.rounds:
        if not rounds.have_time(number) or rounds.make(number):
            break
    known, pace = rounds.known, rounds.pace
    best = known.chosen(problem)
    assert best is not None, "the first round has measured one"
    history = tuple(t.round(number + 1, problem) for number, t in enumerate(known.trials))
    setup.stages.expect(pace.ahead(0, effort))
    with setup.stages.stage(CONFIRMING):
        measurement = confirmed(best, problem, known, effort, pace.process_s)
    return Solved(best=replace(best, measurement=measurement), rounds=history, costs=known.costs)


@dataclass(slots=True, kw_only=True)
class _Rounds:
    """What the rounds have learnt so far, what the next one may choose from, and how long each takes."""

    problem: Problem
    effort: Effort
    known: Knowledge
    scope: Scope
    pace: Pace = field(default_factory=Pace)

    def have_time(self, number: int) -> bool:
        """Whether there is time for one more and the confirmation; the first one is made in any case."""
        setup, known = self.problem.bench.setup, self.known
        setup.stages.expect(self.pace.ahead(likely_rounds(number, self.effort), self.effort))
        if not known.trials or setup.deadline.leaves(sum(self.pace.ahead(1, self.effort).values())):
            return True
        setup.note(f"the time was over after {plural(len(known.trials), 'network')}: another may fit better")
        return False

    def make(self, number: int) -> bool:
        """Make one round. Returns whether it is the last."""
        setup = self.problem.bench.setup
        setup.report(Progress(stage=f"solving, round {number + 1}"))
        if self.scope is Scope.ALL and number >= self.effort.free_rounds:
            self.scope = Scope.SEEN
        begin_s = setup.stages.clock()
        with setup.stages.stage(SOLVING, self.pace.solve_s):
            choice = NextNetwork(problem=self.problem, known=self.known).choose(self.scope)
        self.pace = replace(self.pace, solve_s=setup.stages.clock() - begin_s)
        if choice is None:
            return not self._go_on(gained_little=True)
        try:
            self._measure(choice)
        except MeasurementError as error:
            if not self.known.trials:
                raise
            setup.note(f"the last network could not be measured, so the best one before is kept: {last_line(error)}")
            return True
        is_little = gained_little(self.known.trials, self.problem)
        goes_on = self._go_on(gained_little=is_little)
        if number + 1 < self.effort.least_rounds:
            return False
        if any(trial.is_good(self.problem) for trial in self.known.trials):
            return True
        return not goes_on or (is_little and self._has_shares())

    def _measure(self, choice: Choice) -> None:
        setup, is_first = self.problem.bench.setup, not self.known.trials
        processes = self.effort.round_processes
        begin_s = setup.stages.clock()
        with setup.stages.stage(NETWORKS, processes * self.pace.process_s):
            self.known = build_and_measure(self.problem, choice, self.known, processes=processes)
        process_s = (setup.stages.clock() - begin_s) / processes
        if process_s > FROM_CACHE_S:  # what comes from the cache says nothing of how long the next network takes
            self.pace = replace(self.pace, process_s=process_s)
        if is_first and self.effort.free_rounds > 1:
            self.known = self.known.with_operators(self.problem)

    def _has_shares(self) -> bool:
        best = self.known.best(self.problem)
        return best is not None and best.has_shares(self.problem)

    def _go_on(self, *, gained_little: bool) -> bool:
        """Set the next round's scope; returns whether it may gain more. Blocks in other sizes were never in a network,
        and bring surprises: they come when known ones promise or gain little, and then are known, too."""
        is_last = self.scope is Scope.NEAR and gained_little
        if self.scope is Scope.NEAR:
            self.scope = Scope.SEEN
        elif gained_little:
            self.scope = Scope.SEEN if self.scope is Scope.ALL else Scope.NEAR
        return not is_last
