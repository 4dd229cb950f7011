"""What each block costs, as columns of the integer program: first measured alone, then learnt in place. *Alone* is
outside of any network, in turn with other blocks (blocks_in_turn.py)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from statsnet.blocks import KINDS
from statsnet.blocks.base import with_tuples
from statsnet.proxy.towers import Placed, Tower, follows_itself, parameter_count
from statsnet.signatures.operators import ITEM_SIZE
from statsnet.synthesis.bench.block_measurement import BlockMeasurement
from statsnet.synthesis.bench.disturbances import OPERATORS_DIFFER
from statsnet.synthesis.bench.network_measurement import Blocks
from statsnet.synthesis.candidates.candidates import Candidate
from statsnet.synthesis.costs.corrections import Sums, corrected, corrections_of, of_classes, pace_of_times, sums_of
from statsnet.synthesis.costs.loads import (
    OperatorGroup,
    StepLoad,
    groups_of,
    load_of_part,
    mean,
    scaled,
    with_counters,
    with_distinct_weights,
)
from statsnet.synthesis.costs.overhead import Overheads, overheads
from statsnet.synthesis.costs.resized_blocks import Resized, other_sizes, resized_groups
from statsnet.synthesis.program.matched_characteristics import MatchedCharacteristics

LEAST_CALL_S = 1e-5
"""The interpreter takes at least this long from one operator to the next."""

Counts = Mapping[str, int]
"""How often each block is in a network, by `Placed.key`; other blocks are not in it."""

Corrections = Sequence[Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockCosts:
    """Loads of all candidates, each with and without the optimizer's step on its parameters. Immutable: learning from a
    measured network gives a new value.

    A block that was part of a measured network has the times that it took there. The other blocks' times are scaled by
    how much the measured blocks' times changed from alone to in place: by shape, or else by kernel class. Where these
    say nothing, the `usual` corrections hold.

    Optimizers' operators have corrections of their own, and none before a network was measured: parameters are in
    memory alone and in place, while additions of activations find in place what the operator before has just written.

    The time of a training step with nothing to do (`idle_s`, from `MeasureIdleStep`) is in every block's measurement
    (once in that of a row of blocks), but only once in a network. So it is subtracted from each block.
    """

    item_bytes: int
    idle_s: Mapping[str, float]
    known: Mapping[str, Placed]
    """All blocks by key: the candidates, and resized ones once they were asked for."""
    placed: tuple[Placed, ...]
    """All candidates, with and without their optimizer's step."""
    block_loads: Mapping[str, StepLoad]
    """By identity."""
    optimizer_loads: Mapping[str, StepLoad]
    """By key."""
    resized: Mapping[str, Resized]
    """By identity."""
    unsound: frozenset[str] = frozenset()
    """Identities of blocks that no network may hold again."""
    overheads: Overheads
    usual: Mapping[str, float] = field(default_factory=dict)
    in_place: Mapping[str, tuple[tuple[OperatorGroup, ...], ...]] = field(default_factory=dict)
    """By identity, of each measured network."""
    stepped: tuple[Sums, ...] = ()
    """How the optimizers' times changed from alone to in place, of each measured network."""
    of_optimizers: Mapping[str, float] = field(default_factory=dict)
    """The corrections of optimizers' operators that follow from these."""
    _columns: dict[Any, np.ndarray] = field(default_factory=dict, repr=False, compare=False)
    _apart_s: dict[str, float] = field(default_factory=dict, repr=False, compare=False)
    """What `matrix` and `forward_and_backward_s` have worked out; blocks that are added change none of it."""
    _other_sizes: dict[tuple[str, str], list[tuple[Placed, Resized]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """`other_sizes` by block and measured block; nothing that is learnt changes them."""

    @classmethod
    def of(
        cls,
        measured: Sequence[tuple[Candidate, BlockMeasurement]],
        dtype: str = "float32",
        idle_s: Mapping[str, float] | None = None,
        usual: Mapping[str, float] | None = None,
    ) -> BlockCosts:
        """From candidates that were measured alone."""
        item_bytes, idle_s = ITEM_SIZE[dtype], dict(idle_s or {})
        known: dict[str, Placed] = {}
        block_loads: dict[str, StepLoad] = {}
        optimizer_loads: dict[str, StepLoad] = {}
        for candidate, measurement in measured:
            plain = Placed(kind=candidate.kind, config=candidate.config)
            others = 1.0 - 1.0 / measurement.in_a_row  # their share of what a row has of the idle time
            load = load_of_part(measurement.block).delay(others * idle_s.get(_entered(plain), 0.0))
            groups = with_distinct_weights(load.groups, item_bytes * parameter_count(plain))
            block_loads[plain.identity] = replace(load, groups=groups)
            if measurement.block.operators:  # parameters alone have none without their optimizer's step
                known[plain.key] = plain
            if measurement.optimizer.operators:
                stepped = replace(plain, optimizer=candidate.optimizer)
                delay_s = others * idle_s.get(candidate.optimizer or "", 0.0)
                optimizer_loads[stepped.key] = load_of_part(measurement.optimizer).delay(delay_s)
                known[stepped.key] = stepped
        return cls(
            item_bytes=item_bytes,
            idle_s=idle_s,
            known=known,
            placed=tuple(known[key] for key in sorted(known)),
            block_loads=block_loads,
            optimizer_loads=optimizer_loads,
            resized={},
            overheads=overheads(operators for load in block_loads.values() for operators in load.groups),
            usual=usual or {},
        )

    def leave_out(self, unwanted: Callable[[StepLoad], bool]) -> BlockCosts:
        """Without the candidates whose load is unwanted, unless none would be left."""
        wanted = tuple(p for p in self.placed if not unwanted(self._load(p, ())))
        return replace(self, placed=wanted or self.placed)

    def with_others(self, others: BlockCosts) -> BlockCosts:
        """With further candidates. What is known of those that are here already stays."""
        known = {**others.known, **self.known}
        placed = {p.key: p for p in (*others.placed, *self.placed) if p.identity not in self.unsound}
        return replace(
            self,
            known=known,
            placed=tuple(placed[key] for key in sorted(placed)),
            block_loads={**others.block_loads, **self.block_loads},
            optimizer_loads={**others.optimizer_loads, **self.optimizer_loads},
            overheads={**others.overheads, **self.overheads},
        )

    def loads(self) -> list[StepLoad]:
        """Of all candidates: in place where a network held them, else as measured alone."""
        return [self._load(p, ()) for p in self.placed]

    def resize(self, blocks: Iterable[Placed]) -> tuple[BlockCosts, list[Placed]]:
        """New costs that also know these blocks in other sizes, and those resized blocks."""
        known, optimizers = dict(self.known), dict(self.optimizer_loads)
        origins = dict(self.resized)
        others: dict[str, Placed] = {}
        for block in blocks:
            for resized, origin in self._in_other_sizes(block):
                if resized.identity in self.unsound:
                    continue
                if resized.key not in known:
                    known[resized.key] = resized
                    if resized.identity not in self.block_loads:
                        origins.setdefault(resized.identity, origin)
                    if block.key in optimizers:
                        parameter_ratio = parameter_count(resized) / parameter_count(block)
                        groups = scaled(optimizers[block.key].groups, parameter_ratio)
                        optimizers[resized.key] = replace(optimizers[block.key], groups=groups)
                others[resized.key] = resized
        costs = replace(self, known=known, optimizer_loads=optimizers, resized=origins)
        return costs, list(others.values())

    def _in_other_sizes(self, block: Placed) -> list[tuple[Placed, Resized]]:
        measured = self._measured(block)
        key = block.key, measured.identity
        if key not in self._other_sizes:
            self._other_sizes[key] = [*other_sizes(block, measured, self.item_bytes)]
        return self._other_sizes[key]

    def pace(self, towers: Sequence[Tower], blocks: Blocks) -> float:
        """How many times as long as alone the towers' first blocks took in a network: the median over their time. Alone
        they found their operands in memory, as they do there, so the machine makes the difference. Not so blocks whose
        uses form a tower (`SingleBlock.write_operand`)."""
        times_s = []
        for tower, parts in zip(towers, blocks, strict=True):
            first = tower.blocks[0]
            if not follows_itself(first):
                alone_s = sum(g.time_s for g in self._groups_alone(first.identity))
                times_s.append((alone_s, parts[0].operator_time_s))
        return pace_of_times(times_s)

    def at_pace(self, pace: float) -> BlockCosts:
        """With the times in measured networks, if blocks usually take so many times as long there as was assumed."""
        in_place = {
            identity: tuple(StepLoad(groups=groups, framework_s=0.0).scale_times(pace).groups for groups in samples)
            for identity, samples in self.in_place.items()
        }
        stepped = tuple(
            {name: (alone_s, pace * there_s) for name, (alone_s, there_s) in sums.items()} for sums in self.stepped
        )
        return replace(
            self, in_place=in_place, stepped=stepped, of_optimizers=corrections_of(stepped), _columns={}, _apart_s={}
        )

    def learn(self, towers: Sequence[Tower], runs: Sequence[Blocks]) -> BlockCosts:
        """With the times of one measured network: `runs[k][i][j]` is the j-th block of the i-th tower in a process."""
        in_runs = [self._in_place(towers, run) for run in runs]
        learnt: dict[str, tuple[tuple[OperatorGroup, ...], ...]] = {}
        for identity in in_runs[0]:
            samples = [run[identity] for run in in_runs]
            time_s = [sum(g.time_s for g in groups) for groups in samples]
            quiet = [groups for groups, t in zip(samples, time_s, strict=True) if t <= OPERATORS_DIFFER * min(time_s)]
            learnt[identity] = (*self.in_place.get(identity, ()), mean(quiet))
        return replace(self, in_place={**self.in_place, **learnt}, _columns={}, _apart_s={})

    def learn_optimizers(self, counts: Counts, there: Iterable[OperatorGroup]) -> BlockCosts:
        """With the times of the optimizers' operators in a step of a measured network of so many uses of blocks. If
        one of these is a block in another size, only kernel classes are learnt: its operators' shapes are not known."""
        stepping = {key: n for key, n in counts.items() if key in self.optimizer_loads}
        alone = tuple(g for key, n in stepping.items() for g in scaled(self.optimizer_loads[key].groups, float(n)))
        sums = sums_of([(alone, tuple(there))])
        if any(self.known[key].identity in self.resized for key in stepping):
            sums = of_classes(sums, alone)
        stepped = (*self.stepped, sums)
        return replace(self, stepped=stepped, of_optimizers=corrections_of(stepped), _columns={}, _apart_s={})

    def _in_place(self, towers: Sequence[Tower], blocks: Blocks) -> dict[str, tuple[OperatorGroup, ...]]:
        """One use of each block, by identity: the mean over its uses."""
        samples: dict[str, list[tuple[OperatorGroup, ...]]] = defaultdict(list)
        for tower, parts in zip(towers, blocks, strict=True):
            for placed, part in zip(tower.blocks, parts, strict=True):
                groups = with_distinct_weights(groups_of(part), self.item_bytes * parameter_count(placed))
                load = self.block_loads.get(placed.identity)
                samples[placed.identity].append(with_counters(groups, load.groups if load else ()))
        return {identity: mean(of_block) for identity, of_block in samples.items()}

    def changes(self, towers: Sequence[Tower]) -> Sums:
        """How the blocks of the last network changed from alone to in place."""
        identities = {block.identity for tower in towers for block in tower.blocks}
        return sums_of((self._groups_alone(i), self.in_place[i][-1]) for i in sorted(identities))

    def idle(self, optimizers: Iterable[str]) -> StepLoad:
        """The load of a step with nothing to do, with these optimizers."""
        parts = [self.idle_s.get(name, 0.0) for name in ("block", *sorted(optimizers))]
        return StepLoad(groups=(), framework_s=sum(parts))

    def is_launch_bound(self, block: Placed) -> bool:
        """Whether a GPU waits for the launches of a block's kernels longer than it runs them."""
        waiting_s = self._framework_alone_s(block)
        return waiting_s > self._load(block, ()).time_s - waiting_s

    def seen(self) -> list[Placed]:
        """The blocks that were measured in place, and may stand in a network again."""
        identities = self.in_place.keys() - self.unsound
        return [p for p in self.known.values() if p.identity in identities]

    def named(self, counts: Counts) -> list[Placed]:
        """The blocks of a network."""
        return [self.known[key] for key in sorted(counts)]

    def matrix(
        self, rows: MatchedCharacteristics, budget_s: float, blocks: Sequence[Placed] | None = None
    ) -> np.ndarray:
        """Rows × blocks (all candidates unless given) for a network that should fill `budget_s`."""
        wanted = [((rows, budget_s, p.key), p) for p in (self.placed if blocks is None else blocks)]
        if missing := {key: p for key, p in wanted if key not in self._columns}:
            corrections = self._corrections()
            columns = rows.matrix([self._load(p, corrections) for p in missing.values()], budget_s)
            self._columns.update(zip(missing, columns.T, strict=True))
        return np.stack([self._columns[key] for key, _ in wanted], axis=1)

    def forward_and_backward_s(self, blocks: Iterable[Placed]) -> np.ndarray:
        """Seconds of blocks without the optimizer's step."""
        of_identity = [(p.identity, p) for p in blocks]
        if missing := {name: p for name, p in of_identity if name not in self._apart_s}:
            corrections = self._corrections()
            for name, p in missing.items():
                self._apart_s[name] = self._load(replace(p, optimizer=None), corrections).time_s
        return np.array([self._apart_s[name] for name, _ in of_identity])

    def groups(self, blocks: Iterable[Placed]) -> dict[str, tuple[OperatorGroup, ...]]:
        """The operators of one use of each block, by identity, without the optimizer's step."""
        corrections = self._corrections()
        return {name: self._block_groups(name, corrections) for name in {p.identity: None for p in blocks}}

    def _load(self, placed: Placed, corrections: Corrections) -> StepLoad:
        groups = self._block_groups(placed.identity, corrections)
        if placed.key in self.optimizer_loads:
            known = [self.of_optimizers] if corrections else []
            groups += corrected(self.optimizer_loads[placed.key].groups, known)
        return StepLoad(groups=groups, framework_s=self._framework_alone_s(placed))

    def _block_groups(self, identity: str, corrections: Corrections) -> tuple[OperatorGroup, ...]:
        if seen := self.in_place.get(identity):
            return mean(seen)
        if identity in self.resized and (resized := self.resized[identity]).origin in self.in_place:
            return resized_groups(mean(self.in_place[resized.origin]), resized, self.overheads)
        return corrected(self._groups_alone(identity), corrections)

    def _framework_alone_s(self, placed: Placed) -> float:
        """A resized block spends as long between its operators as the block that it is derived from, unless it repeats
        calls."""
        identity, repeated = self.measured_alone(placed.identity)
        time_s = repeated * self._beyond_idle_s(self.block_loads[identity], _entered(placed))
        if placed.key in self.optimizer_loads:
            time_s += self._beyond_idle_s(self.optimizer_loads[placed.key], placed.optimizer or "")
        return time_s

    def measured_alone(self, identity: str) -> tuple[str, float]:
        """The identity of the block measured alone that this one is derived from, or its own; and how many times as
        often this one repeats its calls."""
        repeated = 1.0
        while identity not in self.block_loads:
            resized = self.resized[identity]
            identity, repeated = resized.origin, repeated * (resized.ratio if resized.repeats else 1.0)
        return identity, repeated

    def _measured(self, block: Placed) -> Placed:
        """The block itself if it was measured, alone or in place, or else the one that it is derived from."""
        if block.identity in self.block_loads or block.identity in self.in_place:
            return block
        kind, config = json.loads(self.resized[block.identity].origin)
        return replace(block, kind=kind, config=with_tuples(config))

    def _beyond_idle_s(self, load: StepLoad, name: str) -> float:
        least = min(LEAST_CALL_S * sum(g.calls for g in load.groups), load.framework_s)
        return max(load.framework_s - self.idle_s.get(name, 0.0), least)

    def _corrections(self) -> Corrections:
        """Those of blocks that were measured in place, and the usual ones. A resized block's time alone is derived from
        that of its origin."""
        own = sums_of((self._groups_alone(i), mean(samples)) for i, samples in self.in_place.items())
        return corrections_of([own]), self.usual

    def _groups_alone(self, identity: str) -> tuple[OperatorGroup, ...]:
        if identity in self.block_loads:
            return self.block_loads[identity].groups
        resized = self.resized[identity]
        return resized_groups(self._groups_alone(resized.origin), resized, self.overheads)


def _entered(block: Placed) -> str:
    """What of the idle step a block's measurement holds, beside its optimizer's."""
    return "" if KINDS[block.kind].ends_tower(block.config) else "block"
