"""What a proxy is to be made of and for: the target, and measured blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statsnet import environment
from statsnet.devices.recorded_bench import PREFIX, RecordedBench, is_recorded, recorded_device
from statsnet.errors import StatsNetError, UsageError
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.process import measuring_environment
from statsnet.proxy.emit import network_source
from statsnet.proxy.towers import Placed, build_towers
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import Mix, resolve_mix
from statsnet.signatures.target import Target, target_of_mix
from statsnet.synthesis.block_costs import BlockCosts
from statsnet.synthesis.candidates import Candidate, candidates, leaders
from statsnet.synthesis.live_bench import Bench, Report
from statsnet.synthesis.matched_characteristics import MatchedCharacteristics
from statsnet.synthesis.network_measurement import MachineSpeed

DEFAULT_COMPRESSION = 53
"""Fifty and some: machines drift by a few percent between one process and the next."""

SHORTEST_STEP_S = {"inference": 5e-3, "training": 20e-3}
"""A training step goes into autograd and calls each optimizer once, which takes most of a millisecond on a slow CPU
(`jobs.measure_idle`), and has three operators where inference has one: of 5 ms a fifth would lie between operators,
where no tenth of a suite's step does."""

REFERENCE_NETWORK_S = 0.03
REFERENCE_NETWORK_BLOCKS = 8
"""A step's aimed-at length, and from so many families of the mix's motifs one block each. Processes of one of 3 ms
differed by 35 % beside a network that itself differed by 3."""

MOST_FOREIGN = 0.25
"""Share of a block's time in kernel classes that the target lacks: beyond, it stands for nothing there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What the integer program cannot choose, for it cannot see what it would change.

    `size` multiplies the candidates' sizes, `max_distinct` is the number of different blocks at most, `order` shuffles
    the towers (0: as they are built), `seed` is that of the local search and of the network's values.
    """

    size: float = 1.0
    max_distinct: int = 44
    order: int = 0
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """`replayed` names the members whose times come from replay, `not_retimed` those that were to be timed again and
    keep their signature's times. `columns` learn while it is solved."""

    mix_text: str
    target: Target
    budget_s: float
    rows: MatchedCharacteristics
    columns: BlockCosts
    bench: Bench
    pace: MachineSpeed
    replayed: tuple[str, ...]
    not_retimed: tuple[str, ...]
    design: Design


def prepare(
    mix_text: str,
    *,
    mode: str = "inference",
    budget_s: float | None = None,
    compression: float = DEFAULT_COMPRESSION,
    design: Design = Design(),
    device: str = "cpu",
    profiles: Path | None = None,
    cache: MeasurementCache | None = None,
    retime: bool = True,
    counters: str = "off",
    note: Callable[[str], None] = lambda _text: None,
    report: Report = lambda _stage, _share: None,
) -> Problem:
    """Resolve a mix, choose candidates and measure them; then, to `retime`, the steps of members whose models are at
    hand: their profiles are of another hour. A step is to take `budget_s`, or the suite's ÷ `compression` but not under
    the mode's SHORTEST_STEP_S. With a fresh cache nothing that was measured before counts: members are profiled again,
    where their models are at hand, and blocks timed again. On a GPU, hardware counters (`counters`: see gpu.COUNTING)
    are read of members that are profiled here, of candidates where the members' are known, and of the finished proxy;
    `note` is told why there are none. Raises as `synthesize` does."""
    db = ProfilesDB(profiles) if profiles else ProfilesDB()
    known = recorded_device(device.removeprefix(PREFIX), db, mode) if is_recorded(device) else None
    here = known.environment if known else measuring_environment(device)
    mix = resolve_mix(mix_text, mode, db, environment=environment.fingerprint(here))
    settings: dict[str, Any] = {
        "environment": here,
        "mode": mode,
        "dtype": _common_dtype(mix),
        "cache": cache or MeasurementCache(),
        "report": report,
        "counters": counters,
        "note": note,
    }
    bench = (
        RecordedBench(**settings, device="cpu", recorded=known) if known else Bench(**settings, device=device)
    )
    before = {m.name: m.signature for m in mix.members}
    mix, replayed = bench.measured_here(mix)
    target = target_of_mix(mix, replayed)
    budget = budget_s or budget_of(target, compression, mode)
    chosen = candidates(target, budget_s=budget * design.size)
    if not chosen:
        raise StatsNetError(
            "no block stands for any operator of this mix",
            cause="its signatures hold only operators that StatsNet cannot rebuild",
            hint="statsnet show FILE lists a signature's operators",
        )
    columns = columns_of(chosen, bench, counters=bool(target.counters))
    profiled = {m.name for m in mix.members if m.signature is not before[m.name]}
    timed = profiled if bench.ignore_cache else before.keys() - replayed.keys()
    again, pace = bench.retimed(target, timed if retime else (), reference_network(target, bench))
    if again:
        target = target_of_mix(mix, {**replayed, **again})
        budget = budget_s or budget_of(target, compression, mode)
    rows = MatchedCharacteristics(target, columns.overheads)
    columns.leave_out(lambda load: rows.foreign_share(load) > MOST_FOREIGN)
    return Problem(
        mix_text=mix_text,
        target=target,
        budget_s=budget,
        rows=rows,
        columns=columns,
        bench=bench,
        pace=pace,
        replayed=tuple(sorted(replayed)),
        not_retimed=tuple(sorted(before.keys() - profiled - replayed.keys() - again.keys()))
        if retime and not known
        else (),
        design=design,
    )


def reference_network(target: Target, bench: Bench) -> str:
    """The source of a network of what the mix mostly does, that takes about REFERENCE_NETWORK_S: a neighbour that takes
    memory bandwidth slows down other operators than one that takes cores."""
    blocks = leaders(target, time_s=REFERENCE_NETWORK_S, count=REFERENCE_NETWORK_BLOCKS)
    counted = [(Placed(kind=c.kind, config=c.config), 1) for c in blocks]
    towers = build_towers(counted, training=bench.mode == "training")
    return network_source(
        towers,
        title=f"A reference network for {bench.mode}",
        spec_id="",
        mode=bench.mode,
        dtype=bench.dtype,
        seed=0,
    )


def columns_of(chosen: list[Candidate], bench: Bench, *, counters: bool = False) -> BlockCosts:
    """The candidates that can be measured, measured."""
    idle_s = bench.idle_s(c.optimizer for c in chosen if c.optimizer)
    measured = bench.columns(chosen, counters=counters)
    return BlockCosts([c for c, _ in measured], [column for _, column in measured], bench.dtype, idle_s)


def budget_of(target: Target, compression: float, mode: str) -> float:
    """Seconds: Σ T_i ÷ compression, not under the mode's SHORTEST_STEP_S."""
    return max(sum(m.latency_s for m in target.members) / compression, SHORTEST_STEP_S[mode])


def _common_dtype(mix: Mix) -> str:
    found = sorted({m.signature.dtype for m in mix.members})
    if len(found) > 1:
        raise UsageError(
            f"the mix holds signatures of {' and '.join(found)}",
            cause="one proxy computes in one dtype",
            hint="profile all members with the same --dtype",
        )
    return found[0]
