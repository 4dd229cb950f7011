"""Solve, build, measure the whole network, learn from it, and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

import numpy as np

from statsnet.errors import MeasurementError, StatsNetError
from statsnet.progress import Progress
from statsnet.proxy.emit import network_source
from statsnet.proxy.towers import Placed, Tower, build_towers, shuffled
from statsnet.signatures.documents import Round
from statsnet.signatures.target import target_of
from statsnet.synthesis.block_costs import BlockCosts, Counts
from statsnet.synthesis.confirming import confirmed, last_line, measured_at_pace
from statsnet.synthesis.effort import Effort
from statsnet.synthesis.expected_time import CONFIRMING, NETWORKS, SOLVING, Pace, likely_rounds
from statsnet.synthesis.integer_program import Program, Solution, relax, relaxation_starts
from statsnet.synthesis.loads import load_of_target
from statsnet.synthesis.local_search import JUMPS, local_search
from statsnet.synthesis.phases import with_phases
from statsnet.synthesis.problem import Problem, program_of
from statsnet.synthesis.trials import LEAST_GAIN, Knowledge, Trial, gained_little
from statsnet.units import plural

FROM_CACHE_S = 0.2

FIRST_JUMPS = 30
"""Jumps of a search from one of several starts."""

JUMPS_NEARBY = 400
"""Jumps of a search near the best network. Most of them are too far, which is seen at once."""

IMPROVEMENTS = 2
"""The best of these is improved this often: each time its blocks come in other sizes than before."""

RADIUS = (16, 1 / 4)
"""A later round may change this many uses of blocks of the best network so far, or this share of its uses if that is
more."""


class Scope(Enum):
    """What the next network is made of: any candidates; the best network with a few changes, also in its blocks' sizes;
    or the best one with a few changes among blocks that were part of a network. The wider, the better a network there
    may be, and the more surprises it brings."""

    ALL = auto()
    NEAR = auto()
    SEEN = auto()

    @property
    def narrower(self) -> Scope:
        return Scope.NEAR if self is Scope.ALL else Scope.SEEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The blocks of a network to be measured, and the costs that know them."""

    counts: Counts
    solution: Solution
    costs: BlockCosts


def solve_in_rounds(
    problem: Problem, *, effort: Effort | None = None, known: Knowledge | None = None
) -> tuple[Trial, tuple[Round, ...]]:
    """The best network, and an entry for each measured network. The best is measured once more (`confirmed`).

    Each round learns the blocks' times in place and, for the program's right-hand side, what belongs to no block, such
    as the framework time that a network has beyond its blocks'. The first rounds choose freely, later ones near the
    best network so far. If a round gains little while categories or kernel classes miss their bars, the next has a
    narrower `Scope`. Networks that are already known (`known`) replace the first rounds. The rounds end with the
    effort's (default: the bench's), with a good network, when none of the scopes promises or gains much, or when
    another one and the confirmation would take longer than the deadline leaves.
    """
    setup = problem.bench.setup
    effort = effort or setup.effort
    may_choose_freely = known is None
    scope = Scope.ALL if may_choose_freely else Scope.NEAR
    known, pace = known or Knowledge(costs=problem.costs), Pace()
    for number in range(effort.rounds):
        setup.stages.expect(pace.ahead(likely_rounds(number, effort), effort, first=not known.trials))
        if known.trials and not setup.deadline.leaves(sum(pace.ahead(1, effort).values())):
            setup.note(f"the time was over after {plural(len(known.trials), 'network')}: another may fit better")
            break
        setup.report(Progress(stage=f"solving, round {number + 1}"))
        if scope is Scope.ALL and number >= effort.free_rounds:
            scope = scope.narrower
        begin_s = setup.stages.clock()
        with setup.stages.stage(SOLVING, pace.solve_s):
            following = NextNetwork(problem=problem, known=known)
            choice = following.free() if scope is Scope.ALL else following.near_the_best(scope)
        solved_s = setup.stages.clock()
        known = replace(known, costs=choice.costs)
        if following.promises_nothing(choice, scope):
            if scope is Scope.SEEN:
                break
            scope = scope.narrower
            continue
        processes = effort.round_processes if known.trials else effort.first_processes
        with setup.stages.stage(NETWORKS, processes * pace.process_s):
            try:
                known = build_and_measure(problem, choice, known, processes=processes)
            except MeasurementError as error:
                if not known.trials:
                    raise
                setup.note(
                    f"the last network could not be measured, so the best one before is kept: {last_line(error)}"
                )
                break
        measuring_s = setup.stages.clock() - solved_s
        if number == 0 and may_choose_freely and effort.free_rounds > 1:
            known = known.with_operators(problem)
        process_s = measuring_s / processes
        # What comes from the cache says nothing of how long the next network takes.
        pace = Pace(solve_s=solved_s - begin_s, process_s=process_s if process_s > FROM_CACHE_S else pace.process_s)
        if number + 1 < effort.least_rounds:
            continue
        if known.trials[-1].is_good(problem):
            break
        if gained_little(known.trials, problem):
            if scope is Scope.SEEN or _best(known, problem).has_shares(problem):
                break
            scope = scope.narrower
    best = _best(known, problem)
    history = tuple(t.round(number + 1, problem) for number, t in enumerate(known.trials))
    setup.stages.expect(pace.ahead(0, effort))
    with setup.stages.stage(CONFIRMING):
        measurement = confirmed(best, problem, known, effort, pace.process_s)
        return replace(best, measurement=measurement), history


def _best(known: Knowledge, problem: Problem) -> Trial:
    best = known.best(problem)
    assert best is not None, "the first round has measured one"
    return best


@dataclass(frozen=True, slots=True, kw_only=True)
class NextNetwork:
    """The next network to measure, given those measured so far."""

    problem: Problem
    known: Knowledge

    def free(self) -> Choice:
        """From all candidates. Every start is improved a little before one is chosen: the best one before may not be
        the best after."""
        costs = self.known.costs
        outside = [self._outside(t) for t in self.known.trials] or [self._idle()]
        wanted = self.problem.rows.target - np.median(outside, axis=0)
        blocks = list(costs.placed)
        program = self._program(costs, blocks, wanted)
        relaxed = relax(program)
        vectors = relaxation_starts(program, relaxed, max_distinct=self.problem.design.max_distinct)
        starts: list[Counts] = [_counts(v, blocks) for v in vectors]
        best = self.known.best(self.problem)
        starts += [best.counts] if best else []
        improved = [self._improved(costs, start, wanted, FIRST_JUMPS) for start in filter(None, starts)]
        if not improved:
            raise _too_short(self.problem.budget_s)
        choice = min(improved, key=lambda c: c.solution.error)
        for _ in range(IMPROVEMENTS):
            choice = self._improved(choice.costs, choice.counts, wanted, JUMPS)
        return replace(choice, solution=replace(choice.solution, bound=relaxed.error))

    def _improved(self, costs: BlockCosts, counts: Counts, wanted: np.ndarray, jumps: int) -> Choice:
        """A better network, of all candidates and of its own blocks in other sizes."""
        chosen = costs.named(counts)
        costs, resized = self._resized(costs, chosen)
        blocks = _unique([*costs.placed, *chosen, *resized])
        program, design = self._program(costs, blocks, wanted), self.problem.design
        solution = local_search(
            program,
            _vector(counts, blocks),
            relax(program),
            max_distinct=design.max_distinct,
            seed=design.seed,
            jumps=jumps,
        )
        return Choice(counts=_counts(solution.counts, blocks), solution=solution, costs=costs)

    def promises_nothing(self, choice: Choice, scope: Scope) -> bool:
        """Whether the network was measured already, or all of its blocks were and it would hardly be better."""
        trials, at = self.known.trials, (self.problem.rows, self.problem.budget_s)
        if any(choice.counts == t.counts for t in trials):
            return True
        return scope is Scope.SEEN and choice.solution.error > (1 - LEAST_GAIN) * min(t.error(*at) for t in trials)

    def near_the_best(self, scope: Scope) -> Choice:
        """A network that was not measured yet: the best one with a few changes, among blocks that were measured in a
        network and, unless the scope is SEEN, its own blocks in other sizes."""
        best = _best(self.known, self.problem)
        own = self.known.costs.named(best.counts)
        seen = self.known.costs.seen()
        costs, resized = (self.known.costs, []) if scope is Scope.SEEN else self._resized(self.known.costs, own)
        blocks = _unique([*seen, *own, *resized])
        wanted = self.problem.rows.target - self._outside(best)
        program = self._program(costs, blocks, wanted)
        solution = local_search(
            program,
            _vector(best.counts, blocks),
            relax(program),
            max_distinct=self.problem.design.max_distinct,
            radius=max(RADIUS[0], int(RADIUS[1] * sum(best.counts.values()))),
            tried=[_vector(t.counts, blocks) for t in self.known.trials],
            seed=self.problem.design.seed,
            jumps=JUMPS_NEARBY,
        )
        return Choice(counts=_counts(solution.counts, blocks), solution=solution, costs=costs)

    def _resized(self, costs: BlockCosts, blocks: Sequence[Placed]) -> tuple[BlockCosts, list[Placed]]:
        """These blocks in other sizes. None if other devices are rows: how a resized block changes there is not known
        until it is captured, so the program's answer would be wrong."""
        return (costs, []) if self.problem.bench.setup.elsewhere is not None else costs.resize(blocks)

    def _program(self, costs: BlockCosts, blocks: list[Placed], wanted: np.ndarray) -> Program:
        problem = self.problem
        return program_of(costs, blocks, problem.rows, wanted, problem.budget_s, problem.bench.setup.mode)

    def _outside(self, trial: Trial) -> np.ndarray:
        """What a measured network holds beyond its blocks."""
        problem, costs = self.problem, self.known.costs
        blocks = costs.named(trial.counts)
        matrix = costs.matrix(problem.rows, problem.budget_s, blocks)
        whole = trial.in_budget(problem.rows, problem.budget_s)
        return whole - matrix @ _vector(trial.counts, blocks)

    def _idle(self) -> np.ndarray:
        """The estimate of `_outside` before any network was measured: an idle step with all the suite's optimizers."""
        optimizers = {b.optimizer for b in self.known.costs.placed if b.optimizer}
        return self.problem.rows.vector(self.known.costs.idle(optimizers), self.problem.budget_s)


def _too_short(budget_s: float) -> StatsNetError:
    return StatsNetError(
        "no network fits the time budget",
        cause=f"one block, or a step with nothing in it, is longer than {budget_s:.3g} s",
        hint="give a longer --budget",
    )


def _unique(blocks: Sequence[Placed]) -> list[Placed]:
    return list({b.key: b for b in blocks}.values())


def _vector(counts: Counts, blocks: list[Placed]) -> np.ndarray:
    return np.array([counts.get(b.key, 0) for b in blocks])


def _counts(vector: np.ndarray, blocks: list[Placed]) -> Counts:
    return {b.key: int(n) for b, n in zip(blocks, vector, strict=True) if n > 0}


def build_and_measure(problem: Problem, choice: Choice, known: Knowledge, *, processes: int) -> Knowledge:
    """Build a network of the chosen blocks and measure it in so many processes; returns what is known afterwards.

    If it does not run, blocks in other sizes may be the cause: they were never tried. It is built once more without
    them; and if that does not run, without operators by themselves. Raises StatsNetError if there are no blocks,
    MeasurementError if the network does not run.
    """
    if not choice.counts:
        raise _too_short(problem.budget_s)
    setup, design, costs = problem.bench.setup, problem.design, choice.costs
    blocks = [(b, choice.counts[b.key]) for b in costs.named(choice.counts)]
    towers = _towers(blocks, costs, problem)
    title = "A network on the way to a proxy."
    source = network_source(towers, title=title, spec_id="", mode=setup.mode, dtype=setup.dtype, seed=design.seed)
    try:
        measurement = measured_at_pace(source, towers, range(processes), costs, problem, earlier=known.paces)
    except MeasurementError as error:
        what, (costs, counts) = "blocks that had never run", choice.costs.without_untried(choice.counts)
        if counts == choice.counts:
            what, (costs, counts) = "operators by themselves", choice.costs.without_operators(choice.counts)
        if counts == choice.counts or not counts or setup.deadline.passed:
            raise
        setup.note(f"a network was built once more, without {what}: {last_line(error)}")
        return build_and_measure(problem, replace(choice, counts=counts, costs=costs), known, processes=processes)
    trial = Trial(counts=choice.counts, towers=towers, source=source, measurement=measurement, solution=choice.solution)
    step = load_of_target(target_of(measurement.signature)).scale_times(trial.latency_s)
    profiled_s = measurement.signature.measurements[0].operator_time_s
    factor = sum(group.time_s for group in step.groups) / profiled_s if profiled_s else 1.0
    in_place = [tuple(tuple(p.scale_times(factor) for p in tower) for tower in run) for run in measurement.blocks]
    costs = costs.learn(towers, in_place)
    return Knowledge(costs=costs, trials=(*known.trials, trial))


def _towers(blocks: Sequence[tuple[Placed, int]], costs: BlockCosts, problem: Problem) -> list[Tower]:
    """The blocks in towers, each operator by itself in the phase that lacks its time. On a GPU, launch-bound ones are
    in towers of their own, which come first: at the beginning of a step a GPU waits for the host; behind long kernels
    the host would run ahead, and the time between small ones, which the suite pays, would vanish."""
    setup = problem.bench.setup
    first = [costs.is_launch_bound(b) for b, _ in blocks] if setup.device.startswith("cuda") else [False] * len(blocks)
    towers: list[Tower] = []
    for wanted in (True, False):
        some = [entry for entry, is_first in zip(blocks, first, strict=True) if is_first == wanted]
        towers += shuffled(build_towers(some, training=setup.mode == "training"), problem.design.order)
    return with_phases(towers, costs.groups(b for b, _ in blocks), problem.target)
