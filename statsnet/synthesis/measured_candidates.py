"""Which candidates are measured, and what they cost: a few of each family, then, wave by wave, those that the best
network would be made of if they cost what their nearest relatives let expect."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from statsnet.errors import MeasurementError, ProcessError, StatsNetError
from statsnet.proxy.towers import Placed
from statsnet.signatures.conversion import plain
from statsnet.signatures.target import Target
from statsnet.synthesis.bench.bench import Bench, MeasuredBlocks
from statsnet.synthesis.bench.machine_speed import MachineSpeed
from statsnet.synthesis.candidates.candidates import Candidate, StepRoom, candidates
from statsnet.synthesis.candidates.operator_candidates import not_served, operator_candidates, short_of, too_coarse
from statsnet.synthesis.costs.block_costs import BlockCosts
from statsnet.synthesis.earlier_networks import usual_corrections
from statsnet.synthesis.expected_costs import expected
from statsnet.synthesis.expected_time import FIRST_NETWORK_S, blocks_in_time
from statsnet.synthesis.program.integer_program import Program, relax
from statsnet.synthesis.program.matched_characteristics import MatchedCharacteristics

LARGEST_COUNT = 96
"""Uses of one block in a step that is no longer than the suite's. In a longer one there may be more, in proportion."""

CONSIDERED = 600
"""Most candidates of which the ones to be measured are chosen. To estimate what one takes costs milliseconds."""

LARGE_SHARE, OF_LARGE = 0.01, 2
"""Of a family with this share of the target's time, so many candidates are measured first; one of others."""

MOST_FIRST = 2 / 3
"""Of all that may be measured, at most this share is measured first: what the best network would be made of comes
after it."""

MOST_TRIES = 4
"""After so many of a family of which none runs, no more of it are tried."""

AT_A_TIME, AT_A_TIME_IN_ORDER = 60, 120
"""Most candidates of each further wave, and where they are taken in their order."""

LEAST_GAIN = 0.1
"""A wave must promise to reduce the error of the best network by this share; or, in their order, the last one must have
done so."""

MOST_FOREIGN = 0.25
"""A block is left out if it spends more than this share of its time in kernel classes that the target lacks."""


def costs_of(target: Target, budget_s: float, bench: Bench, speed: MachineSpeed) -> BlockCosts:
    """The costs of the candidates that can be measured. A deadline ends it when the rest is needed to solve and to
    measure a first network. What it began with is kept, too: the next time more is known, and the same mix should give
    the same proxy. Raises StatsNetError if there are none."""
    setup = bench.setup
    considered = setup.most_candidates if setup.own_sizes else max(CONSIDERED, setup.most_candidates)
    left = candidates(target, budget_s=budget_s, limit=considered, own_sizes=setup.own_sizes)
    idle_s = bench.idle_s([c.optimizer for c in left if c.optimizer], speed)
    key = setup.key(
        chosen_for=plain(target),
        of=[c.key for c in left],
        budget_s=budget_s,
        effort=setup.effort.name,
        elsewhere=setup.elsewhere.names if setup.elsewhere else None,
    )
    begun = setup.cache.get(key, _Begun)
    usual = usual_corrections(bench) if begun is None else begun.usual
    survey = _Survey(target=target, budget_s=budget_s, bench=bench, speed=speed, idle_s=idle_s, usual=usual)
    if begun is None:
        survey.measure_in_waves(left)
    else:
        survey.measure_again(begun.waves, left)
    if not survey.measured or setup.deadline.leaves(FIRST_NETWORK_S):
        survey.measure_operators_alone()
    if not survey.measured:
        raise survey.why or StatsNetError(
            "no block stands for any operator of this mix",
            cause="its signatures hold only operators that StatsNet cannot rebuild",
            hint="statsnet show FILE lists a signature's operators",
        )
    if begun is None and not survey.hangs and not survey.is_cut and setup.deadline.leaves(FIRST_NETWORK_S):
        setup.cache.put(key, _Begun(waves=survey.waves, usual=usual))
    return survey.costs()


def first_of_families(chosen: Sequence[Candidate], tries: Mapping[str, int] | None = None) -> list[Candidate]:
    """The candidates that are measured first: one of each family in their order, then the others of large ones. `tries`
    counts those of each family that were tried before."""
    taken = Counter(tries)
    firsts, others = [], []
    for candidate in chosen:
        if not taken[candidate.family]:
            firsts.append(candidate)
        elif taken[candidate.family] < OF_LARGE and candidate.share >= LARGE_SHARE:
            others.append(candidate)
        taken[candidate.family] += 1
    return firsts + others


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """What was known when a mix was first asked for: the candidates that were measured then, by key, and the usual
    corrections."""

    waves: list[list[str]]
    usual: dict[str, float]


@dataclass(slots=True, kw_only=True)
class _Survey:
    """What has been measured for a target so far. `waves` are the candidates' keys, `tries` counts them by family, and
    `free` of them were at hand; the first wave `is_cut` if there was no time for all of it. `hangs` counts waves of
    which a process said nothing any more, and `why` is the last reason why some could not be measured. `bound` is the
    error that the last candidates in their order left, if the last wave `has_grown` what is measured; `of_measured`
    keeps the best network of so many blocks."""

    target: Target
    budget_s: float
    bench: Bench
    speed: MachineSpeed
    idle_s: Mapping[str, float]
    usual: Mapping[str, float]
    measured: MeasuredBlocks = field(default_factory=list)
    waves: list[list[str]] = field(default_factory=list)
    tries: Counter[str] = field(default_factory=Counter)
    free: int = 0
    hangs: int = 0
    why: MeasurementError | None = None
    has_grown: bool = False
    bound: float = np.inf
    of_measured: tuple[int, _Best] | None = None
    is_cut: bool = False

    def measure_in_waves(self, left: Sequence[Candidate]) -> None:
        """Until a wave promises little, enough are measured, or the time is over."""
        setup = self.bench.setup
        next_of = self.next_in_order if setup.own_sizes else self.most_promising
        while wave := next_of(left)[: setup.most_candidates + self.free - self.tries.total()]:
            if not self.measure(wave) or not setup.deadline.leaves(FIRST_NETWORK_S):
                return
            tried = {c.key for c in wave}
            left = [c for c in left if c.key not in tried]

    def measure_again(self, waves: Sequence[Sequence[str]], candidates: Sequence[Candidate]) -> None:
        """Those that a survey of the same candidates chose. Wave by wave, as hardware counters are kept."""
        by_key = {c.key: c for c in candidates}
        for wave in waves:
            if not self.measure([by_key[name] for name in wave]):
                return
            if not self.bench.setup.deadline.leaves(FIRST_NETWORK_S):
                return

    def measure(self, wave: Sequence[Candidate]) -> bool:
        """Measure these, and return whether to go on: each block that hangs takes minutes."""
        self.waves.append([c.key for c in wave])
        self.tries.update(c.family for c in wave)
        self.has_grown = False
        try:
            self.measured += self.bench.measure_blocks(wave, self.speed, counters=bool(self.target.counters))
        except MeasurementError as error:
            self.why = error
            self.hangs += not isinstance(error, ProcessError)
            self.bench.setup.note(f"blocks were left out: {error.message}: {error.cause}")
            return self.hangs <= (1 if self.measured else 0)
        self.has_grown = True
        return True

    def costs(self) -> BlockCosts:
        return self._costs(self.measured)

    def next_in_order(self, left: Sequence[Candidate]) -> list[Candidate]:
        """The first ones; later the next ones, if the last ones were worth it. On a GPU, each size may run a kernel of
        its own, so that relatives tell little."""
        if self.has_grown:
            before, self.bound = self.bound, self._best_measured().error
            if self.bound > (1 - LEAST_GAIN) * before:
                return []
        return [*left[:AT_A_TIME_IN_ORDER]]

    def most_promising(self, left: Sequence[Candidate]) -> list[Candidate]:
        """First those that are at hand, and some of each other family. Later others of families of which the first ones
        do not run; and those that the best network would be made of if they cost what is expected, the most useful
        first, unless it would hardly be better than that of measured blocks."""
        if not self.waves:
            return self._first(left)
        run = {c.family for c, _ in self.measured}
        lost = [c for c in first_of_families(left) if c.family not in run and 0 < self.tries[c.family] < MOST_TRIES]
        return [*lost, *self._expected_in_the_best(left)][:AT_A_TIME]

    def _first(self, left: Sequence[Candidate]) -> list[Candidate]:
        kept = self.bench.kept(left, self.speed)
        self.free, known = len(kept), {c.key for c in kept}
        others = first_of_families([c for c in left if c.key not in known], Counter(c.family for c in kept))
        setup = self.bench.setup
        wanted = others[: math.ceil(MOST_FIRST * setup.most_candidates)]
        in_time = wanted[: int(min(blocks_in_time(setup.deadline.left_s, setup.effort), len(wanted)))]
        self.is_cut = len(in_time) < len(wanted)
        return [*kept, *in_time]

    def _expected_in_the_best(self, left: Sequence[Candidate]) -> list[Candidate]:
        unmeasured = expected(left, self.measured)
        if not unmeasured:
            return []
        best = self._best([*unmeasured, *self.measured])
        if best.error > (1 - LEAST_GAIN) * self._best_measured().error:
            return []
        candidate_of = {p.key: c for c, _ in unmeasured for p in (replace(c.placed, optimizer=None), c.placed)}
        use: dict[str, float] = defaultdict(float)
        for block, amount in best.use().items():
            if block in candidate_of:
                use[candidate_of[block].key] += amount
        return sorted((c for c, _ in unmeasured if c.key in use), key=lambda c: -use[c.key])

    def measure_operators_alone(self) -> None:
        """Operators by themselves, for the kernel classes that no measured block can stand for, or that no network of
        them has enough of."""
        best = self._best_measured() if self.measured else None
        missing = not_served(self.target.kernel_class_shares, best.costs.loads() if best else [])
        if best and self.bench.setup.elsewhere is None:
            missing = {**short_of(best.lacking, best.rows.keys), **missing}
            if not self.bench.setup.own_sizes:
                coarse = too_coarse(self.target.kernel_class_shares, best.costs.loads(), self.budget_s)
                missing = {**coarse, **missing}
        self.measured += measured_alone(self.target, missing, self.budget_s, self.bench, self.speed)

    def _costs(self, measured: MeasuredBlocks) -> BlockCosts:
        return BlockCosts.of(measured, self.bench.setup.dtype, self.idle_s, self.usual)

    def _best_measured(self) -> _Best:
        """Solved once for each number of blocks: further ones are only added."""
        number = len(self.measured)
        if self.of_measured is None or self.of_measured[0] != number:
            self.of_measured = number, self._best(self.measured)
        return self.of_measured[1]

    def _best(self, blocks: MeasuredBlocks) -> _Best:
        """Of these blocks; rows are those that measured ones tell."""
        setup = self.bench.setup
        rows = MatchedCharacteristics(self.target, self.costs().overheads, setup.elsewhere)
        costs = without_foreign(self._costs(blocks), rows)
        program = program_of(costs, list(costs.placed), rows, rows.target, StepRoom.of(self.target, self.budget_s))
        return _Best(costs=costs, rows=rows, program=program, counts=relax(program).counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Best:
    """The best network that could be made of some blocks, those of `costs`, if they could be used in part."""

    costs: BlockCosts
    rows: MatchedCharacteristics
    program: Program
    counts: np.ndarray

    @property
    def error(self) -> float:
        return self.program.error(self.counts)

    @property
    def lacking(self) -> np.ndarray:
        """What each row is short of."""
        lacking: np.ndarray = self.program.target - self.program.matrix @ self.counts
        return lacking

    def use(self) -> dict[str, float]:
        """By the blocks' keys: how much of the rows, by weight, each block that is used brings."""
        amounts = self.program.weight @ np.abs(self.program.matrix) * self.counts
        return {b.key: float(a) for b, a in zip(self.costs.placed, amounts, strict=True) if a > 0}


def measured_alone(
    target: Target, missing: Mapping[str, float], budget_s: float, bench: Bench, speed: MachineSpeed
) -> MeasuredBlocks:
    """Operators by themselves, measured, for kernel classes of which these shares of the time are missing."""
    setup = bench.setup
    chosen = operator_candidates(target, missing, budget_s=budget_s, own_dtype=setup.dtype, own_sizes=setup.own_sizes)
    try:
        return bench.measure_blocks(chosen, speed, counters=bool(target.counters)) if chosen else []
    except MeasurementError as error:
        setup.note(f"operators by themselves were left out: {error.message}: {error.cause}")
        return []


def program_of(
    costs: BlockCosts,
    blocks: Sequence[Placed],
    rows: MatchedCharacteristics,
    wanted: np.ndarray,
    room: StepRoom,
) -> Program:
    """The integer program: `wanted` rows made of these blocks. None of them may take too much of the budget."""
    matrix = costs.matrix(rows, room.budget_s, blocks)
    apart_s = costs.forward_and_backward_s(blocks)
    largest_s = np.array([room.longest_s(b.kind) for b in blocks])
    most = round(LARGEST_COUNT * max(1.0, room.budget_s / rows.suite_s))
    upper = np.where(apart_s <= largest_s, most, 0)
    if not upper.any():
        upper[:] = 1
    return Program(matrix=matrix, target=wanted, weight=rows.weights, upper=upper)


def without_foreign(costs: BlockCosts, rows: MatchedCharacteristics) -> BlockCosts:
    return costs.leave_out(lambda load: rows.foreign_share(load) > MOST_FOREIGN)
