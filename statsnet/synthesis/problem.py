"""The problem that synthesis solves: a target, and measured blocks to build a proxy from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from statsnet.environment import fingerprint
from statsnet.errors import StatsNetError, UsageError
from statsnet.proxy.emit import network_source
from statsnet.proxy.towers import build_towers
from statsnet.signatures.mix import Mix
from statsnet.signatures.target import Target, target_of_mix
from statsnet.synthesis.bench import Bench
from statsnet.synthesis.block_costs import BlockCosts
from statsnet.synthesis.candidates import Candidate, candidates, leaders
from statsnet.synthesis.expected_time import BLOCKS, PROFILING, TIMING, expected_stages_s
from statsnet.synthesis.matched_characteristics import MatchedCharacteristics
from statsnet.synthesis.network_measurement import MachineSpeed

DEFAULT_COMPRESSION = 53
"""Fifty and a margin: machines drift by a few percent from one process to the next."""

SHORTEST_STEP_S = {"inference": 5e-3, "training": 20e-3}
"""A training step enters autograd and calls each optimizer once, which takes most of a millisecond on a slow CPU
(`MeasureIdleStep`). It also has three operators for each one of inference. So a fifth of a 5 ms step would lie between
operators, while in a suite's step less than a tenth does."""

REFERENCE_NETWORK_S = 0.03
REFERENCE_NETWORK_BLOCKS = 8
"""The reference network's wanted step time, and the number of families of motifs that give one block each. At 3 ms its
processes differed by 35 %, those of the network beside it by only 3 %."""

MOST_FOREIGN = 0.25
"""A block is left out if it spends more than this share of its time in kernel classes that the target lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Choices that the integer program cannot make, because it does not see their effect.

    `size` multiplies the candidates' sizes, `max_distinct` is the largest number of different blocks, `order` shuffles
    the towers (0: as they are built), `seed` is for the local search and the network's values.
    """

    size: float = 1.0
    max_distinct: int = 44
    order: int = 0
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRequest:
    """What the user asks for. A step should take `budget_s`; or the suite's time ÷ `compression`, but at least the
    mode's SHORTEST_STEP_S. With `retime`, members whose models are at hand are timed once more, because their profiles
    are from another hour. The proxy's folder calls the mix `title` (if empty, by what it names and the weights), and
    repeats the `notes`."""

    mix_text: str
    title: str = ""
    notes: str = ""
    budget_s: float | None = None
    compression: float = DEFAULT_COMPRESSION
    retime: bool = True
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """`title` and `notes`: see ProxyRequest. `replayed` names the members whose times come from replay, `not_retimed`
    those that could not be timed again and keep their signature's times. `costs` are of blocks measured alone."""

    title: str
    notes: str
    target: Target
    budget_s: float
    rows: MatchedCharacteristics
    costs: BlockCosts
    bench: Bench
    speed: MachineSpeed
    replayed: tuple[str, ...]
    not_retimed: tuple[str, ...]
    design: Design


def prepare(mix: Mix, bench: Bench, request: ProxyRequest, design: Design) -> Problem:
    """Measure the mix's members here if needed, choose candidates and measure them; then time members again.

    If the cache ignores older entries, members are profiled again if their models are at hand, and blocks are timed
    again. Raises StatsNetError if no block stands for any operator, MeasurementError if measuring fails.
    """
    setup, stages = bench.setup, bench.setup.stages
    title, before = mix.title, {m.name: m.signature for m in mix.members}
    foreign = {m.name for m in mix.members if m.signature.measurement_for(fingerprint(setup.environment)) is None}
    stages.expect(
        expected_stages_s(
            foreign=len(before if setup.cache.ignores_older else foreign),
            members=len(before) if request.retime and bench.can_time_members else 0,
            effort=setup.effort,
        )
    )
    with stages.stage(PROFILING):
        mix, replayed = bench.measure_members(mix)
    target = target_of_mix(mix, replayed)
    budget_s = request.budget_s or budget_of(target, request.compression, setup.mode)
    chosen = candidates(target, budget_s=budget_s * design.size)
    if not chosen:
        raise StatsNetError(
            "no block stands for any operator of this mix",
            cause="its signatures hold only operators that StatsNet cannot rebuild",
            hint="statsnet show FILE lists a signature's operators",
        )
    with stages.stage(BLOCKS):
        costs = costs_of(chosen, bench, counters=bool(target.counters))
    profiled = {m.name for m in mix.members if m.signature is not before[m.name]}
    due = profiled if setup.cache.ignores_older else before.keys() - replayed.keys()
    source = reference_network(target, setup.mode, setup.dtype)
    with stages.stage(TIMING):
        retimed, speed = bench.retime_members(target, due if request.retime else (), source)
    if retimed:
        target = target_of_mix(mix, {**replayed, **retimed})
        budget_s = request.budget_s or budget_of(target, request.compression, setup.mode)
    rows = MatchedCharacteristics(target, costs.overheads)
    not_retimed = before.keys() - profiled - replayed.keys() - retimed.keys()
    return Problem(
        title=request.title or title,
        notes=request.notes,
        target=target,
        budget_s=budget_s,
        rows=rows,
        costs=costs.leave_out(lambda load: rows.foreign_share(load) > MOST_FOREIGN),
        bench=bench,
        speed=speed,
        replayed=tuple(sorted(replayed)),
        not_retimed=tuple(sorted(not_retimed)) if request.retime and bench.can_time_members else (),
        design=design,
    )


def reference_network(target: Target, mode: str, dtype: str) -> str:
    """The source of a network that does mostly what the mix does and takes about REFERENCE_NETWORK_S. It must resemble
    the mix: a neighbour that takes memory bandwidth slows down other operators than one that takes cores."""
    blocks = leaders(target, time_s=REFERENCE_NETWORK_S, count=REFERENCE_NETWORK_BLOCKS)
    towers = build_towers([(replace(c.placed, optimizer=None), 1) for c in blocks], training=mode == "training")
    title = f"A reference network for {mode}"
    return network_source(towers, title=title, spec_id="", mode=mode, dtype=dtype, seed=0)


def costs_of(chosen: Sequence[Candidate], bench: Bench, *, counters: bool = False) -> BlockCosts:
    """The costs of all candidates that can be measured."""
    idle_s = bench.idle_s(c.optimizer for c in chosen if c.optimizer)
    measured = bench.measure_blocks(chosen, counters=counters)
    return BlockCosts.of(measured, bench.setup.dtype, idle_s)


def budget_of(target: Target, compression: float, mode: str) -> float:
    """Seconds: Σ T_i ÷ compression, but at least the mode's SHORTEST_STEP_S."""
    return max(sum(m.latency_s for m in target.members) / compression, SHORTEST_STEP_S[mode])


def common_dtype(mix: Mix) -> str:
    """The dtype of all members. Raises UsageError if they have several."""
    dtypes = sorted({m.signature.dtype for m in mix.members})
    if len(dtypes) > 1:
        raise UsageError(
            f"the mix holds signatures of {' and '.join(dtypes)}",
            cause="one proxy computes in one dtype",
            hint="profile all members with the same --dtype",
        )
    return dtypes[0]
