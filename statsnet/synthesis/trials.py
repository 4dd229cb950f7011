"""Networks that were measured on the way to a proxy: how good each is, and whether the last one gained much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median, stdev

import numpy as np

from statsnet.proxy.towers import Tower
from statsnet.signatures.comparison import KERNEL_CLASS_BAR, is_good, shares_are_good, summary
from statsnet.signatures.documents import Distances, Round
from statsnet.signatures.model import Signature
from statsnet.signatures.target import target_of
from statsnet.synthesis.bench.network_measurement import NetworkMeasurement
from statsnet.synthesis.costs.block_costs import BlockCosts, Counts
from statsnet.synthesis.problem import Problem, with_operators
from statsnet.synthesis.program.integer_program import Solution
from statsnet.synthesis.program.matched_characteristics import MatchedCharacteristics

LEAST_GAIN = 0.1
"""A round that lowers the error by a smaller share than this was not worth its time."""

STEP_TOLERANCE = 0.03
"""Processes of one network differ in step time by this share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One measured network, and the program's solution that it was built from."""

    counts: Counts
    towers: list[Tower]
    source: str
    measurement: NetworkMeasurement
    solution: Solution

    def round(self, number: int, problem: Problem) -> Round:
        """As fit.json holds it."""
        return Round(
            round=number,
            predicted_error=self.solution.error,
            lower_bound=self.solution.bound,
            measured_error=self.error(problem.rows, problem.budget_s),
            drift=self.measurement.drift,
            step_latency_s=self.latency_s,
        )

    def in_budget(self, rows: MatchedCharacteristics, budget_s: float) -> np.ndarray:
        """Its rows in the units of the program: one step's content as shares of the budget."""
        load = rows.load_of(target_of(self.measurement.signature))
        return rows.vector(load, budget_s / self.latency_s)

    @property
    def latency_s(self) -> float:
        """Its step time."""
        return self.measurement.latency_s

    def error_in_budget(self, rows: MatchedCharacteristics, budget_s: float) -> float:
        """Its error as the program counts it."""
        return float(rows.weights @ np.abs(self.in_budget(rows, budget_s) - rows.target))

    def error(self, rows: MatchedCharacteristics, budget_s: float) -> float:
        return _error(self.measurement.signature, rows, budget_s)

    def uncertainty(self, rows: MatchedCharacteristics, budget_s: float) -> float:
        """The standard error of its error, by those of its single processes; 0 if there was only one."""
        errors = [_error(s, rows, budget_s) for s in self.measurement.processes]
        return stdev(errors) / math.sqrt(len(errors)) if len(errors) > 1 else 0.0

    def has_shares(self, problem: Problem) -> bool:
        """Whether a proxy of it would meet the bars of categories and of kernel classes."""
        return shares_are_good(self._distances(problem))

    def _distances(self, problem: Problem) -> Distances:
        return summary(problem.target, target_of(self.measurement.signature))

    def is_good(self, problem: Problem) -> bool:
        """Whether a proxy of it would meet all bars of its fit."""
        return is_good(self._distances(problem)) and abs(self.latency_s / problem.budget_s - 1.0) <= STEP_TOLERANCE


def _error(signature: Signature, rows: MatchedCharacteristics, budget_s: float) -> float:
    """By the rows that a network is judged by: shares of its own step, rates, and the step's length."""
    step = target_of(signature)
    achieved = rows.vector(rows.load_of(step))
    longer = signature.measurements[0].latency_s / budget_s - 1.0
    achieved[rows.index("total")] = 1.0 + math.copysign(max(abs(longer) - STEP_TOLERANCE, 0.0), longer)
    return float(rows.weights @ np.abs(achieved - rows.target))


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What the rounds pass on: the networks measured so far, and the costs of blocks learnt from them."""

    costs: BlockCosts
    trials: tuple[Trial, ...] = ()

    def with_operators(self, problem: Problem) -> Knowledge:
        """If the last network misses the bar of kernel classes, with operators by themselves for what it is short
        of."""
        achieved = target_of(self.trials[-1].measurement.signature)
        if (summary(problem.target, achieved).kernel_class_total_variation or 0.0) <= KERNEL_CLASS_BAR:
            return self
        return replace(self, costs=with_operators(self.costs, problem, achieved))

    @property
    def paces(self) -> tuple[float, ...]:
        """Of all processes that measured a network."""
        return tuple(pace for trial in self.trials for pace in trial.measurement.paces)

    def at_pace(self, pace: float) -> Knowledge:
        """The same, if the networks' blocks usually take so many times as long as was assumed."""
        if pace == 1.0:
            return self
        old = (t.measurement for t in self.trials)
        new = (m.at_pace([1 / pace] * len(m.blocks)) for m in old)
        trials = tuple(replace(t, measurement=m) for t, m in zip(self.trials, new, strict=True))
        return Knowledge(costs=self.costs.at_pace(pace), trials=trials)

    def best(self, problem: Problem) -> Trial | None:
        """By the program's error."""
        return min(self.trials, key=lambda t: t.error(problem.rows, problem.budget_s), default=None)

    def chosen(self, problem: Problem) -> Trial | None:
        """The one that becomes the proxy: of those that meet all bars, if there are any."""
        good = tuple(trial for trial in self.trials if trial.is_good(problem))
        return min(good or self.trials, key=lambda t: t.error(problem.rows, problem.budget_s), default=None)


def gained_little(trials: Sequence[Trial], problem: Problem) -> bool:
    """Whether the last network gained less on the best one before than LEAST_GAIN, or than two rounds differ by
    chance."""
    *before, last = trials
    if not before:
        return False
    at = (problem.rows, problem.budget_s)
    best = min(t.error(*at) for t in before)
    known = [uncertainty for t in trials if (uncertainty := t.uncertainty(*at)) > 0]
    chance = math.sqrt(2) * (median(known) if known else 0.0)
    return best - last.error(*at) <= max(LEAST_GAIN * best, chance)
