"""The network to measure next, given those measured so far: solved for, from more or fewer blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

import numpy as np

from statsnet.errors import StatsNetError
from statsnet.proxy.towers import Placed
from statsnet.synthesis.candidates.candidates import StepRoom
from statsnet.synthesis.costs.block_costs import BlockCosts, Counts
from statsnet.synthesis.measured_candidates import program_of
from statsnet.synthesis.problem import Problem
from statsnet.synthesis.program.integer_program import Program, Solution, relax, relaxation_starts
from statsnet.synthesis.program.local_search import JUMPS, local_search
from statsnet.synthesis.trials import LEAST_GAIN, Knowledge, Trial

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
    """What the next network is made of: any candidates; the best network with a few changes among blocks that were part
    of a network; or with a few changes also in its blocks' sizes. The wider, the better a network there may be, and the
    more surprises it brings."""

    ALL = auto()
    SEEN = auto()
    NEAR = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The blocks of a network to be measured, and the costs that know them."""

    counts: Counts
    solution: Solution
    costs: BlockCosts


@dataclass(frozen=True, slots=True, kw_only=True)
class NextNetwork:
    """The next network to measure, given those measured so far."""

    problem: Problem
    known: Knowledge

    def choose(self, scope: Scope) -> Choice | None:
        """The best network in this scope. None if it was measured already. Near the best network also if it
        promises no lower error than the best one so far; among SEEN blocks, none that is lower by LEAST_GAIN. Raises
        StatsNetError if no network fits the budget."""
        choice = self.free() if scope is Scope.ALL else self.near_the_best(scope)
        trials, at = self.known.trials, (self.problem.rows, self.problem.budget_s)
        if any(choice.counts == t.counts for t in trials):
            return None
        if scope is Scope.ALL:
            return choice
        error = min(t.error_in_budget(*at) for t in trials)
        gain = LEAST_GAIN if scope is Scope.SEEN else 0.0
        return choice if choice.solution.error < (1 - gain) * error else None

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
            raise too_short(self.problem.budget_s)
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

    def near_the_best(self, scope: Scope) -> Choice:
        """A network that was not measured yet: the best one with a few changes, among blocks that were measured in a
        network and, unless the scope is SEEN, its own blocks in other sizes."""
        best = self.known.best(self.problem)
        assert best is not None, "free rounds come first"
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
        return program_of(costs, blocks, problem.rows, wanted, StepRoom.of(problem.target, problem.budget_s))

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


def too_short(budget_s: float) -> StatsNetError:
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
