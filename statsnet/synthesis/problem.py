"""The problem that synthesis solves: a target, and measured blocks to build a proxy from."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from statsnet.environment import fingerprint
from statsnet.measure.idle_memory import slow_memory
from statsnet.signatures.computing import computing, computing_share
from statsnet.signatures.mix import Mix
from statsnet.signatures.rounding import PRIVATE_DIGITS, rounded
from statsnet.signatures.target import Target, target_of_mix
from statsnet.synthesis.asked import Asked
from statsnet.synthesis.bench.bench import Bench
from statsnet.synthesis.bench.machine_speed import UNDERCUT, MachineSpeed
from statsnet.synthesis.budget import budget_of, usual_budget_of
from statsnet.synthesis.candidates.operator_candidates import short_of
from statsnet.synthesis.costs.block_costs import BlockCosts
from statsnet.synthesis.expected_time import BLOCKS, PROFILING, TIMING, expected_stages_s
from statsnet.synthesis.measured_candidates import costs_of, measured_alone, without_foreign
from statsnet.synthesis.program.matched_characteristics import MatchedCharacteristics

LOOK_AGAIN_S = 5.0
"""What took so long was measured at more than one moment; the speed of the machine only at the first of them."""

DRIFT_STEP = 1.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Choices that the integer program cannot make, because it does not see their effect.

    `size` multiplies the candidates' sizes, `max_distinct` is the largest number of different blocks, `order` shuffles
    the towers (0: as they are built), `seed` is for the local search and the network's values.
    """

    size: float = 1.0
    max_distinct: int = 100
    order: int = 0
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRequest:
    """What the user asks for. A step should take `budget_s`; or the suite's time ÷ `compression`, but at least
    SHORTEST_STEP_S; or, if neither is given, what `usual_budget_of` says. The proxy's folder calls the mix `title` (if
    empty, by what it names and the weights), and repeats the `notes`."""

    mix_text: str
    title: str = ""
    notes: str = ""
    budget_s: float | None = None
    compression: float | None = None
    seed: int = 0

    @classmethod
    def of(cls, asked: Asked, seed: int) -> ProxyRequest:
        return cls(
            mix_text=asked.mix, title=asked.name, notes=asked.notes, budget_s=asked.budget_s,
            compression=asked.compression, seed=seed,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """`title` and `notes`: see ProxyRequest. All times are those at `speed`. `asked_budget_s` is the budget that was
    asked for, at the machine's present speed (None: it follows from the suite's time). `replayed` names the members
    whose times come from replay, `not_retimed` those that could not be timed again and keep their signature's times.
    `costs` are of blocks measured alone. `whole` is the target with its collectives, if it has some: then `target` and
    all budgets are of what a process computes."""

    title: str
    notes: str
    target: Target
    budget_s: float
    asked_budget_s: float | None
    rows: MatchedCharacteristics
    costs: BlockCosts
    bench: Bench
    speed: MachineSpeed
    replayed: tuple[str, ...]
    not_retimed: tuple[str, ...]
    design: Design
    whole: Target | None = None

    @property
    def computing_share(self) -> float:
        """Of the whole target's time."""
        return computing_share(self.whole) if self.whole else 1.0


def prepare(mix: Mix, bench: Bench, request: ProxyRequest, design: Design) -> Problem:
    """Measure the mix's members here if needed or time them again, then choose candidates and measure them.

    If the cache ignores older entries, members are profiled again if their models are at hand, and blocks are timed
    again. If the machine was disturbed when its speed was measured, all is brought to the speed that it shows
    afterwards. Raises StatsNetError if no block stands for any operator, MeasurementError if measuring fails.
    """
    clock = bench.setup.stages.clock
    begin_s = clock()
    problem = _prepared(mix, bench, request, design)
    if clock() - begin_s < LOOK_AGAIN_S:
        return problem
    with bench.setup.stages.stage(BLOCKS):
        later = bench.machine_speed()
    if UNDERCUT * later.reference_latency_s > problem.speed.reference_latency_s:
        return problem
    return _prepared(mix, bench, request, design)  # what was measured is kept


def _prepared(mix: Mix, bench: Bench, request: ProxyRequest, design: Design) -> Problem:
    setup, stages = bench.setup, bench.setup.stages
    title, before = mix.title, {m.name: m.signature for m in mix.members}
    foreign = {m.name for m in mix.members if m.signature.measurement_for(fingerprint(setup.environment)) is None}
    stages.expect(
        expected_stages_s(
            foreign=len(before if setup.cache.ignores_older else foreign),
            members=len(before) if bench.can_time_members else 0,
            candidates=setup.most_candidates,
            effort=setup.effort,
        )
    )
    with stages.stage(PROFILING):
        speed = bench.machine_speed()
        for sentence in slow_memory(speed.page_s):
            setup.note(sentence)
        mix, replayed = bench.measure_members(mix, speed)
    profiled = {m.name for m in mix.members if m.signature is not before[m.name]}
    together = {m.name for m in mix.members if m.measurement and m.measurement.collectives}  # not in one process
    due = before.keys() - replayed.keys() - profiled - together
    with stages.stage(TIMING):
        retimed = bench.retime_members(target_of_mix(mix, replayed), due, speed) if due else {}
    whole = target_of_mix(mix, {**replayed, **retimed})
    target, share = computing(whole), computing_share(whole)
    if request.budget_s is None:
        budget_s = share * (
            budget_of(whole, request.compression)
            if request.compression is not None
            else usual_budget_of(whole, own_sizes=setup.own_sizes)
        )
        if target.is_private:  # it stands in spec.json, and follows from the members' times
            budget_s = rounded(budget_s, PRIVATE_DIGITS)
    else:
        budget_s = request.budget_s / _rounded(bench.drift(speed))
    with stages.stage(BLOCKS):
        costs = costs_of(target, (request.budget_s or budget_s) * design.size, bench, speed)
    rows = MatchedCharacteristics(target, costs.overheads, setup.elsewhere)
    costs = without_foreign(costs, rows)
    rows = MatchedCharacteristics(target, costs.overheads, setup.elsewhere, costs.loads())
    not_retimed = before.keys() - profiled - replayed.keys() - retimed.keys()
    return Problem(
        title=request.title or title,
        notes=request.notes,
        target=target,
        budget_s=budget_s,
        asked_budget_s=request.budget_s,
        rows=rows,
        costs=costs,
        bench=bench,
        speed=speed,
        replayed=tuple(sorted(replayed)),
        not_retimed=tuple(sorted(not_retimed)) if bench.can_time_members else (),
        design=design,
        whole=whole if target is not whole else None,
    )


def _rounded(drift: float) -> float:
    """To a power of DRIFT_STEP, so that two runs of a command mostly solve the same problem."""
    return DRIFT_STEP ** round(math.log(drift, DRIFT_STEP))


def for_design(problem: Problem, design: Design) -> Problem:
    """The same problem with another design; candidates of other sizes are measured."""
    budget_s = (problem.asked_budget_s or problem.budget_s) * design.size
    with problem.bench.setup.stages.stage(BLOCKS, 0.0):
        costs = costs_of(problem.target, budget_s, problem.bench, problem.speed)
    # In the problem's rows, classes that no candidate of the first design had are joined to others.
    rows = MatchedCharacteristics(problem.target, costs.overheads, problem.bench.setup.elsewhere)
    return replace(problem, design=design, costs=without_foreign(costs, rows))


def with_operators(costs: BlockCosts, problem: Problem, achieved: Target) -> BlockCosts:
    """Costs that also know operators by themselves for the kernel classes that a measured network is short of."""
    rows, bench = problem.rows, problem.bench
    if bench.setup.elsewhere is not None or bench.setup.deadline.passed:
        return costs
    missing = short_of(rows.target - rows.vector(rows.load_of(achieved)), rows.keys)
    with bench.setup.stages.stage(BLOCKS, 0.0):
        measured = measured_alone(problem.target, missing, problem.budget_s, bench, problem.speed)
    if not measured:
        return costs
    others = BlockCosts.of(measured, bench.setup.dtype, costs.idle_s)
    return without_foreign(costs.with_others(others), rows)
