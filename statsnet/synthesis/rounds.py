"""Solve, build, measure the whole network, learn from it, and again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from statsnet.errors import StatsNetError
from statsnet.proxy.emit import network_source
from statsnet.proxy.towers import Placed, Tower, build_towers, shuffled
from statsnet.signatures.target import target_of
from statsnet.synthesis.block_costs import Counts
from statsnet.synthesis.candidates import largest_share
from statsnet.synthesis.integer_program import Program, Solution, local_search, relaxation_starts
from statsnet.synthesis.live_bench import ROUND_PROCESSES
from statsnet.synthesis.loads import load_of_target
from statsnet.synthesis.matched_characteristics import MatchedCharacteristics
from statsnet.synthesis.network_measurement import NetworkMeasurement
from statsnet.synthesis.problem import Problem

LARGEST_COUNT = 96
ROUNDS = 6
FREE_ROUNDS = 2
STEP_TOLERANCE = 0.03
"""By so much of it a step's length is uncertain: processes of one network differ."""

FINAL_PROCESSES = (3, 5, 7)
"""The finished proxy is measured in 3 processes; 5, then 7, where its step is not as long as in its round."""

CONFIRMED = 0.05
"""By so much of it a step's length may differ from that in its round."""

TRIMMINGS = 2
"""After its own blocks' sizes alone, a network is trimmed so often with all other blocks at hand."""

RADIUS = (16, 1 / 4)
"""By how many uses of blocks a later round may differ from the best network so far; or, where that is more, by which
share of its uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One measured network, and the solution of the program that it comes from."""

    counts: Counts
    towers: list[Tower]
    source: str
    whole: NetworkMeasurement
    solution: Solution

    def to_dict(self, number: int, problem: Problem) -> dict[str, Any]:
        """An entry of `rounds` in fit.json."""
        return {
            "round": number,
            "predicted_error": self.solution.error,
            "lower_bound": self.solution.bound,
            "measured_error": self.error(problem.rows, problem.budget_s),
            "drift": self.whole.drift,
            "step_latency_s": self.latency_s,
        }

    def in_budget(self, rows: MatchedCharacteristics, budget_s: float) -> np.ndarray:
        """Its rows in the units of the program: what one step holds, as shares of the budget's."""
        return rows.vector(load_of_target(target_of(self.whole.signature)), budget_s / self.latency_s)

    @property
    def latency_s(self) -> float:
        """Of its step."""
        return self.whole.signature.measurements[0].latency_s

    def achieved(self, rows: MatchedCharacteristics, budget_s: float) -> np.ndarray:
        """What it is judged by: shares of its own step, rates, and the length of the step."""
        out = rows.vector(load_of_target(target_of(self.whole.signature)))
        longer = self.latency_s / budget_s - 1.0
        out[rows.index("total")] = 1.0 + math.copysign(max(abs(longer) - STEP_TOLERANCE, 0.0), longer)
        return out

    def error(self, rows: MatchedCharacteristics, budget_s: float) -> float:
        return float(rows.weights @ np.abs(self.achieved(rows, budget_s) - rows.target))


def _best_of(trials: list[Trial], rows: MatchedCharacteristics, budget_s: float) -> Trial | None:
    return min(trials, key=lambda t: t.error(rows, budget_s), default=None)


def correct(
    problem: Problem, *, rounds: int = ROUNDS, confirm: bool = True, trials: Sequence[Trial] = ()
) -> tuple[Trial, list[dict[str, Any]]]:
    """Solve, build, measure the whole, learn from it, again; to confirm it, the best network is measured once more,
    with care.

    What is learnt is each block's time in place, how much more lies between operators than with blocks alone, and,
    on the right-hand side, what belongs to no block. The first rounds choose freely. The later ones make a few
    changes to the best network so far, among blocks that have been part of one: a wholly new network would bring new
    surprises. Where `trials` are given, which have made the problem's columns learn, these stand for the first rounds.
    """
    bench, known = problem.bench, list(trials)
    for number in range(rounds):
        bench.report(f"solving, round {number + 1}", number / rounds)
        choice = NextNetwork(problem=problem, trials=known)
        free = number < FREE_ROUNDS and not trials
        counts, solution = choice.free() if free else choice.near_the_best()
        if any(counts == t.counts for t in known):  # nothing new would be learnt
            if free:
                continue
            break
        known.append(build_and_measure(problem, counts, solution))
    best = _best_of(known, problem.rows, problem.budget_s)
    assert best is not None, "the first round has measured one"
    history = [t.to_dict(number + 1, problem) for number, t in enumerate(known)]
    return replace(best, whole=_confirmed(best, problem)) if confirm else best, history


def _confirmed(best: Trial, problem: Problem) -> NetworkMeasurement:
    """The finished proxy, measured in processes that had no part in its choice; in more where its step differs from
    what it was in its round, as when a neighbour was busy in one of the two."""
    for processes in FINAL_PROCESSES:
        runs = range(ROUND_PROCESSES, ROUND_PROCESSES + processes)
        whole = problem.bench.whole(best.source, runs, problem.pace)
        if abs(whole.signature.measurements[0].latency_s / best.latency_s - 1.0) < CONFIRMED:
            break
    return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class NextNetwork:
    """The next network to measure, given those measured so far."""

    problem: Problem
    trials: list[Trial]

    def free(self) -> tuple[Counts, Solution]:
        """From all candidates: every start is trimmed, for what is best in whole blocks need not be so in sizes."""
        outside = [self._outside(t) for t in self.trials] or [self._idle()]
        wanted = self.problem.rows.target - np.median(outside, axis=0)
        blocks = self.problem.columns.placed
        vectors, bound = relaxation_starts(
            self._program(blocks, wanted), max_distinct=self.problem.design.max_distinct
        )
        starts: list[Counts] = [_counts(v, blocks) for v in vectors]
        best = self._best()
        starts += [best.counts] if best else []
        found = [self._trimmed(start, wanted) for start in starts if start]
        if not found:
            raise _too_short(self.problem.budget_s)
        counts, solution = min(found, key=lambda f: f[1].error)
        return counts, replace(solution, bound=bound)

    def _trimmed(self, counts: Counts, wanted: np.ndarray) -> tuple[Counts, Solution]:
        """The sizes of a network's blocks first, then, with all other blocks at hand, again."""
        for others in ([], *[self.problem.columns.placed] * TRIMMINGS):
            chosen = self.problem.columns.named(counts)
            blocks = _unique([*others, *chosen, *self.problem.columns.resize(chosen)])
            program, start = self._program(blocks, wanted), _vector(counts, blocks)
            found = local_search(
                program, start, max_distinct=self.problem.design.max_distinct, seed=self.problem.design.seed
            )
            counts = _counts(found.counts, blocks)
        return counts, found

    def near_the_best(self) -> tuple[Counts, Solution]:
        """A few changes to the best network, among blocks that were measured in one and its own in other sizes,
        to one that was not measured yet."""
        best = self._best()
        assert best is not None, "free rounds come first"
        own = self.problem.columns.named(best.counts)
        blocks = _unique([*self.problem.columns.seen(), *own, *self.problem.columns.resize(own)])
        wanted = self.problem.rows.target - self._outside(best)
        program = self._program(blocks, wanted)
        found = local_search(
            program,
            _vector(best.counts, blocks),
            max_distinct=self.problem.design.max_distinct,
            radius=max(RADIUS[0], int(RADIUS[1] * sum(best.counts.values()))),
            tried=[_vector(t.counts, blocks) for t in self.trials],
            seed=self.problem.design.seed,
        )
        return _counts(found.counts, blocks), found

    def _program(self, blocks: list[Placed], wanted: np.ndarray) -> Program:
        columns, budget_s = self.problem.columns, self.problem.budget_s
        matrix = columns.matrix(self.problem.rows, budget_s, blocks)
        apart_s = columns.forward_and_backward_s(blocks)
        mode = self.problem.bench.mode
        largest_s = np.array([largest_share(budget_s, mode, b.kind) * budget_s for b in blocks])
        upper = np.where(apart_s <= largest_s, LARGEST_COUNT, 0)
        if not upper.any():
            upper[:] = 1
        return Program(matrix=matrix, target=wanted, weight=self.problem.rows.weights, upper=upper)

    def _outside(self, trial: Trial) -> np.ndarray:
        """What a measured network holds beyond its blocks."""
        blocks = self.problem.columns.named(trial.counts)
        matrix = self.problem.columns.matrix(self.problem.rows, self.problem.budget_s, blocks)
        return trial.in_budget(self.problem.rows, self.problem.budget_s) - matrix @ _vector(
            trial.counts, blocks
        )

    def _idle(self) -> np.ndarray:
        """What lies outside of blocks, before a network was measured: a step with all of the suite's optimizers."""
        optimizers = {b.optimizer for b in self.problem.columns.placed if b.optimizer}
        return self.problem.rows.vector(self.problem.columns.idle(optimizers), self.problem.budget_s)

    def _best(self) -> Trial | None:
        return _best_of(self.trials, self.problem.rows, self.problem.budget_s)


def _too_short(budget_s: float) -> StatsNetError:
    return StatsNetError(
        "no network fits the time budget",
        cause=f"one block, or a step with nothing in it, is longer than {budget_s:.3g} s",
        hint="give a longer --budget",
    )


def _unique(blocks: list[Placed]) -> list[Placed]:
    return list({b.key: b for b in blocks}.values())


def _vector(counts: Counts, blocks: list[Placed]) -> np.ndarray:
    return np.array([counts.get(b.key, 0) for b in blocks])


def _counts(vector: np.ndarray, blocks: list[Placed]) -> Counts:
    return {b.key: int(n) for b, n in zip(blocks, vector, strict=True) if n > 0}


def build_and_measure(problem: Problem, counts: Counts, solution: Solution) -> Trial:
    """Build a network of these blocks, measure it, and have the problem's columns learn from it.

    Raises StatsNetError where there are no blocks.
    """
    if not counts:
        raise _too_short(problem.budget_s)
    bench, design = problem.bench, problem.design
    blocks = [(b, counts[b.key]) for b in problem.columns.named(counts)]
    towers = shuffled(build_towers(blocks, training=bench.mode == "training"), design.order)
    source = network_source(
        towers,
        title=f"Proxy for {problem.mix_text}",
        spec_id="",
        mode=bench.mode,
        dtype=bench.dtype,
        seed=design.seed,
    )
    whole = bench.whole(source, range(ROUND_PROCESSES), problem.pace)
    for blocks_in_place in whole.blocks:
        problem.columns.learn(towers, blocks_in_place)
    trial = Trial(counts=counts, towers=towers, source=source, whole=whole, solution=solution)
    step = load_of_target(target_of(whole.signature)).scale_times(trial.latency_s)
    problem.columns.learn_framework(counts, step.framework_s)
    return trial
