"""Columns of the integer program: what a block costs, first measured alone, then learnt in place."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from statsnet.blocks import KINDS
from statsnet.proxy.towers import Placed, Tower, parameter_count
from statsnet.signatures.operators import ITEM_SIZE
from statsnet.synthesis.candidates import Candidate
from statsnet.synthesis.loads import OperatorGroup, StepLoad, works_of
from statsnet.synthesis.matched_characteristics import MatchedCharacteristics
from statsnet.synthesis.overhead import NONE, Overheads, overheads

LARGEST_CORRECTION = 2.0
"""A kernel class or shape runs at most this many times faster or slower in place than alone, as far as we believe."""

LARGEST_FRAMEWORK = 8.0
"""Between the operators of a network lies at most so many times what lies there with each block alone."""

RESIZINGS = (0.55, 0.65, 0.75, 0.85, 0.93, 1.07, 1.15, 1.3, 1.5, 1.75)
"""Sizes of a block beside the one that was measured. Near it, FLOPs and bytes go with the size, and time but for the
call's overhead."""

LEAST_CALL_S = 1e-5
"""The interpreter takes at least so long from one operator to the next."""

PRODUCTS = frozenset({"gemm", "convolution", "recurrent"})
FEW_ROWS_INTENSITY = 4.0
"""FLOP/byte under which a product is bound by reading its weights, on any machine."""

Counts = Mapping[str, int]
"""How often each block is in a network, by `Placed.key`; blocks that are not named are not in it."""


class BlockCosts:
    """Loads of all candidates, each with and without the optimizer's step on its parameters.

    A block that has been part of a measured network has the times that it took there. The others' times are
    multiplied, shape by shape or else kernel class by kernel class, by what the measured ones' have changed.

    What a training step takes with nothing to do (`idle_s`, from `jobs.measure_idle`) is in every block's measurement,
    and once in a network: it is no column's.
    """

    def __init__(
        self,
        candidates: list[Candidate],
        measured: list[dict[str, Any]],
        dtype: str = "float32",
        idle_s: Mapping[str, float] | None = None,
    ) -> None:
        self._item_bytes = ITEM_SIZE[dtype]
        self._idle_s = dict(idle_s or {})
        self._known: dict[str, Placed] = {}
        """All blocks by key: the candidates, and their resized ones as they are asked for."""
        self._block: dict[str, StepLoad] = {}
        self._optimizer: dict[str, StepLoad] = {}
        self._in_place: dict[str, list[tuple[OperatorGroup, ...]]] = defaultdict(list)
        self._resized: dict[str, tuple[str, float, int]] = {}
        """Identity -> that of the block it stems from, their ratio in size, bytes of weights."""
        self._framework: list[tuple[float, float]] = []
        """Seconds between the operators of each measured network, an idle step's apart, and the sum of its blocks'
        alone."""
        for candidate, column in zip(candidates, measured, strict=True):
            plain = Placed(kind=candidate.kind, config=candidate.config)
            load = _load(column["block"])
            self._block[_identity(plain)] = replace(load, works=self._with_distinct(plain, load.works))
            if column["block"]["operators"]:  # not parameters alone, which are nothing without their step
                self._known[plain.key] = plain
            if column["optimizer"]["operators"]:
                stepped = replace(plain, optimizer=candidate.optimizer)
                self._optimizer[stepped.key] = _load(column["optimizer"])
                self._known[stepped.key] = stepped
        self.placed = [self._known[key] for key in sorted(self._known)]
        """All candidates, with and without their optimizer's step."""
        alone = (work for load in self._block.values() for work in load.works)
        self.overheads = overheads(alone)

    def leave_out(self, unwanted: Callable[[StepLoad], bool]) -> None:
        """Go on without the candidates whose load is unwanted, unless none would be left."""
        self.placed = [p for p in self.placed if not unwanted(self._load(p, {}))] or self.placed

    def resize(self, blocks: Iterable[Placed]) -> list[Placed]:
        """These blocks in other sizes, whose columns are derived from theirs."""
        found: dict[str, Placed] = {}
        for block in blocks:
            for factor in RESIZINGS:
                config = KINDS[block.kind].resized(block.config, factor)
                if config is None:
                    continue
                resized = replace(block, config=config)
                ratio = _reads(resized) / _reads(block)
                if not RESIZINGS[0] / 1.1 < ratio < RESIZINGS[-1] * 1.1 or ratio == 1:
                    continue
                if resized.key not in self._known:
                    self._known[resized.key] = resized
                    weights = self._item_bytes * _shared_weights(block, resized)
                    self._resized.setdefault(_identity(resized), (_identity(block), ratio, weights))
                    if block.key in self._optimizer:
                        stepped = parameter_count(resized) / parameter_count(block)
                        optimizer = self._optimizer[block.key]
                        works = _scaled(optimizer.works, stepped)
                        self._optimizer[resized.key] = replace(optimizer, works=works)
                found[resized.key] = resized
        return list(found.values())

    def learn(self, towers: list[Tower], blocks: list[list[dict[str, Any]]]) -> None:
        """Take in the times of one measured network: `blocks[i][j]` is the j-th block of the i-th tower."""
        sums: dict[str, list[tuple[OperatorGroup, ...]]] = defaultdict(list)
        for tower, parts in zip(towers, blocks, strict=True):
            for placed, part in zip(tower.blocks, parts, strict=True):
                works = self._counted(_identity(placed), self._with_distinct(placed, works_of(part)))
                sums[_identity(placed)].append(works)
        for identity, samples in sums.items():
            self._in_place[identity].append(_mean(samples))

    def learn_framework(self, counts: Counts, framework_s: float) -> None:
        """Take in how long the interpreter took between the operators of a measured network. Alone, a block finds its
        path through the interpreter in the caches; in a network, each operator before it has swept them."""
        alone_s = sum(n * self._framework_alone_s(self._known[key]) for key, n in counts.items())
        optimizers = {o for key in counts if (o := self._known[key].optimizer)}
        self._framework.append((max(framework_s - self.idle(optimizers).framework_s, 0.0), alone_s))

    def idle(self, optimizers: Iterable[str]) -> StepLoad:
        """What a step takes besides its blocks', with these optimizers."""
        found = [self._idle_s.get(name, 0.0) for name in ("block", *sorted(optimizers))]
        return StepLoad(works=(), framework_s=sum(found))

    def seen(self) -> list[Placed]:
        """The blocks that have been measured in place."""
        return [p for p in self._known.values() if _identity(p) in self._in_place]

    def named(self, counts: Counts) -> list[Placed]:
        """The blocks of a network."""
        return [self._known[key] for key in sorted(counts)]

    def matrix(
        self, rows: MatchedCharacteristics, budget_s: float, blocks: Sequence[Placed] | None = None
    ) -> np.ndarray:
        """Rows × blocks (all candidates unless given) for a network that is to fill `budget_s`."""
        corrections = self._corrections()
        loads = [self._load(p, corrections) for p in (self.placed if blocks is None else blocks)]
        return np.stack([rows.vector(load, budget_s) for load in loads], axis=1)

    def forward_and_backward_s(self, blocks: Iterable[Placed]) -> np.ndarray:
        """Seconds of blocks without the optimizer's step."""
        corrections = self._corrections()
        return np.array([self._load(replace(p, optimizer=None), corrections).time_s for p in blocks])

    def _load(self, placed: Placed, corrections: dict[str, float]) -> StepLoad:
        works = self._block_works(_identity(placed), corrections)
        if placed.key in self._optimizer:
            works += _corrected(self._optimizer[placed.key].works, corrections)
        return StepLoad(works=works, framework_s=self._framework_alone_s(placed) * self._framework_factor())

    def _block_works(self, identity: str, corrections: dict[str, float]) -> tuple[OperatorGroup, ...]:
        if seen := self._in_place.get(identity):
            return _mean(seen)
        if identity in self._block:
            return _corrected(self._block[identity].works, corrections)
        origin, ratio, weights = self._resized[identity]
        return _resized(self._block_works(origin, corrections), ratio, weights, self.overheads)

    def _counted(self, identity: str, works: tuple[OperatorGroup, ...]) -> tuple[OperatorGroup, ...]:
        """Works in place, of which no counters are known, with those of the same kernel classes alone."""
        alone = (
            {w.kernel_class: w.counters for w in self._block[identity].works}
            if identity in self._block
            else {}
        )
        return tuple(replace(w, counters=w.counters or alone.get(w.kernel_class, ())) for w in works)

    def _with_distinct(self, placed: Placed, works: tuple[OperatorGroup, ...]) -> tuple[OperatorGroup, ...]:
        """A block's works; of the weights that its calls read there are no more than its parameters."""
        read = sum(w.weights for w in works)
        if not read:
            return works
        distinct = min(self._item_bytes * parameter_count(placed) / read, 1.0)
        return tuple(replace(w, distinct=distinct) for w in works)

    def _framework_alone_s(self, placed: Placed) -> float:
        """A resized block spends as long between its operators as the one that it stems from."""
        identity = _identity(placed)
        while identity not in self._block:
            identity, _, _ = self._resized[identity]
        parts = [(self._block[identity], "block")]
        if placed.key in self._optimizer:
            parts.append((self._optimizer[placed.key], placed.optimizer or ""))
        return sum(self._beyond_idle_s(load, name) for load, name in parts)

    def _beyond_idle_s(self, load: StepLoad, name: str) -> float:
        least = LEAST_CALL_S * sum(w.calls for w in load.works)
        return max(load.framework_s - self._idle_s[name], least) if name in self._idle_s else load.framework_s

    def _framework_factor(self) -> float:
        """In place ÷ alone, the median over all measured networks."""
        found = [in_place / alone for in_place, alone in self._framework if alone > 0]
        return min(max(median(found), 1 / LARGEST_FRAMEWORK), LARGEST_FRAMEWORK) if found else 1.0

    def _corrections(self) -> dict[str, float]:
        """Time in place ÷ time alone, over the blocks that were measured in place: by kernel class, and by shape within
        it. Alone, a block that stems from another takes what is derived from that one's time."""
        alone: dict[str, float] = defaultdict(float)
        in_place: dict[str, float] = defaultdict(float)
        for identity, samples in self._in_place.items():
            for sums, works in ((alone, self._alone(identity)), (in_place, _mean(samples))):
                for work in works:
                    sums[work.kernel_class] += work.time_s
                    sums[work.kernel_shape] += work.time_s
        return {
            k: min(max(in_place[k] / t, 1 / LARGEST_CORRECTION), LARGEST_CORRECTION)
            for k, t in alone.items()
            if t > 0 and in_place.get(k, 0.0) > 0
        }

    def _alone(self, identity: str) -> tuple[OperatorGroup, ...]:
        if identity in self._block:
            return self._block[identity].works
        origin, ratio, weights = self._resized[identity]
        return _resized(self._alone(origin), ratio, weights, self.overheads)


def _identity(placed: Placed) -> str:
    """Blocks of equal kind and dimensions run alike, whoever steps their parameters."""
    return json.dumps([placed.kind, placed.config], sort_keys=True)


def _shared_weights(block: Placed, resized: Placed) -> int:
    """Weights that each product of a block reads or writes, whatever the block's size."""
    count = parameter_count(block)
    same = count == parameter_count(resized)
    return count if same and KINDS[block.kind].index_range(block.config) is None else 0


def _reads(block: Placed) -> int:
    return KINDS[block.kind].elements_read(block.config)


def _load(part: dict[str, Any]) -> StepLoad:
    return StepLoad(works=works_of(part), framework_s=part["framework_s"])


def _corrected(works: tuple[OperatorGroup, ...], corrections: dict[str, float]) -> tuple[OperatorGroup, ...]:
    return tuple(replace(w, time_s=w.time_s * _correction(w, corrections)) for w in works)


def _correction(work: OperatorGroup, corrections: dict[str, float]) -> float:
    """Of its shape, else of its kernel class."""
    return corrections.get(work.kernel_shape, corrections.get(work.kernel_class, 1.0))


def _scaled(works: tuple[OperatorGroup, ...], factor: float, calls: float = 1.0) -> tuple[OperatorGroup, ...]:
    return tuple(
        replace(
            w,
            time_s=w.time_s * factor,
            flops=w.flops * factor,
            bytes=w.bytes * factor,
            weights=w.weights * factor,
            calls=w.calls * calls,
        )
        for w in works
    )


def _resized(
    works: tuple[OperatorGroup, ...], ratio: float, weights_bytes: int, known: Overheads
) -> tuple[OperatorGroup, ...]:
    """A block `ratio` times as large: its calls' overhead stays, and what its weights take; its products still read all
    of these, and where that is not known apart take as long for that share."""
    products = [w for w in works if w.category in PRODUCTS]
    moved, calls = sum(w.bytes for w in products), sum(w.calls for w in products)
    fixed = min(calls * weights_bytes / moved, 1.0) if moved else 0.0
    found = []
    for work in works:
        kept = fixed if work.category in PRODUCTS else 0.0
        overhead = known.get(work.kernel_class, NONE)
        few_rows = work.bytes and work.flops / work.bytes < FEW_ROWS_INTENSITY
        bound = kept if few_rows and not overhead.weight_byte_s else 0.0
        fixed_s = overhead.fixed_s(work)
        found.append(
            replace(
                work,
                time_s=fixed_s + (work.time_s - fixed_s) * (ratio + bound * (1.0 - ratio)),
                flops=work.flops * ratio,
                bytes=work.bytes * (ratio + kept * (1.0 - ratio)),
            )
        )
    return tuple(found)


def _mean(samples: list[tuple[OperatorGroup, ...]]) -> tuple[OperatorGroup, ...]:
    """Works of several measurements of one block, each with its share."""
    share = 1.0 / len(samples)
    return tuple(w for works in samples for w in _scaled(works, share, calls=share))
