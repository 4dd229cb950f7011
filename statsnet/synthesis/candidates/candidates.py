"""Which blocks may go into a proxy: the mix's motifs at full size and at declared smaller sizes."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from statsnet.blocks import KINDS, Config
from statsnet.proxy.towers import Placed
from statsnet.signatures.target import Target
from statsnet.synthesis.candidates.estimate import estimate_s
from statsnet.synthesis.candidates.sources import Source, by_importance, sources

DIVISORS = (1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)
"""Divisors of the safe axis. Those below 1 merge several small calls, such as look-ups in many tables, into one."""

NARROWINGS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
PENALTIES = ((0.25, 0.05), (0.05, 0.25))
"""The price of halving a block's width (channels), and of halving its safe axis: the logarithm of its time must be
nearer to that of the wanted time by this much. A product divided on the safe axis keeps its weights, and so reads more
of them for each FLOP; a narrowed one runs a smaller kernel. Blocks with weights are chosen with both pairs, others with
the first: also recurrent layers in inference, for each of their steps reads all weights."""

WITH_WEIGHTS = frozenset({"conv", "deconv", "linear", "recurrent"})
COARSE = 3
"""The second pair of penalties is used for this many of SIZES, and for larger ones."""

ROOM = 16.0
"""A motif's candidates take up to this many times its own share of the time; a family's leader up to this many times
the family's share. Anything larger would stand for something else."""

FEWEST = 2
"""Every motif is tried in at least this many sizes."""

SIZES = (1 / 8, 1 / 25, 1 / 80, 1 / 250, 1 / 600)
"""Wanted times of a motif's candidates, as shares of the budget. Coarse ones fill it, fine ones balance it."""

LEAST_OF_OPERATOR = SIZES[-1] / 4
"""An operator by itself may also take the share of the budget that is wanted of it, if that is no less than this."""

PARTS = (2, 1, 1 / 2, 1 / 4, 1 / 10)
"""Wanted times of parameters alone, as parts of the optimizer's time. A parameter of any size costs a dozen operators,
with the interpreter in between, so that one parameter that takes all the time is best."""

LARGEST_SHARE = 1 / 6
"""One block may take this share of the budget, without the optimizer's step, so that no block's quirks dominate the
network. A motif at its own size is a candidate if it takes no more."""

LARGE_S, LARGEST_OF_SHORT = {"inference": 4e-3, "training": 12e-3}, 1 / 3
"""One block may always take this many seconds, up to this share of a short budget. In a convolution of one millisecond,
the call and the reordering of maps and weights take a large part. In training a block has three convolutions: its own,
its input's gradient and its weights' gradient."""

OF_ONE_OPERATOR = 1 / 2
"""One block may always take this share of what equal calls of the most expensive operator (the optimizer's aside) take
in the target. Where nearly all of a step is one operator, such as a fused encoder layer, no other block can outweigh
its quirks; and small ones read all of its weights for a sequence or two."""

NEAREST = 3
"""The first sizes of every motif come before any further sizes: the program needs something of each kernel class more
than a finer choice of some."""

MOST_OF_KIND = 1.25
"""On GPUs, a motif comes in its own size alone if one of it takes at most this many times its kind's share."""

LARGER = (2 / 5, 1 / 4)
"""More SIZES, where a block may take that much."""

OF_RULES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What a kind's rules may raise for sizes that are none of its own."""

LIMIT = 360
"""Most candidates, unless somebody asks for another number."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A block that may be repeated in the proxy. `scale` is its size over the original's, `time_s` an estimate. Those
    of one `family` run the same kernels, and `share` is that of the target's time which its source stands for: its
    own, or its family's if it leads that."""

    kind: str
    config: Config
    optimizer: str | None
    scale: float
    time_s: float
    family: str
    share: float

    @property
    def key(self) -> str:
        """That of its block in a network."""
        return self.placed.key

    @property
    def named(self) -> str:
        """Kind and configuration, for messages."""
        return f"{self.kind} {json.dumps(self.config)}"

    @cached_property
    def placed(self) -> Placed:
        """As a block of a network."""
        return Placed(kind=self.kind, config=self.config, optimizer=self.optimizer)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "config": self.config, "optimizer": self.optimizer}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRoom:
    """A step of `budget_s` seconds. `one_operator` is the largest share of the target's time that equal calls of an
    operator take."""

    budget_s: float
    mode: str
    one_operator: float = 0.0

    @classmethod
    def of(cls, target: Target, budget_s: float) -> StepRoom:
        one_operator = max((c.time_share for c in target.clusters if c.phase != "optimizer"), default=0.0)
        return cls(budget_s=budget_s, mode=target.mode, one_operator=one_operator)

    def largest_share(self, kind: str = "") -> float:
        """The share of the step that one block may take."""
        return max(self._usual_share(kind), OF_ONE_OPERATOR * self.one_operator)

    def _usual_share(self, kind: str) -> float:
        """Recurrent layers may take more: all steps share the weights, so that splitting a layer would double them."""
        if kind == "recurrent":
            return LARGEST_OF_SHORT
        return max(LARGEST_SHARE, min(LARGE_S[self.mode] / self.budget_s, LARGEST_OF_SHORT))

    def longest_s(self, kind: str) -> float:
        """Seconds that one block may take."""
        return self.largest_share(kind) * self.budget_s

    def usual_sizes(self, kind: str, share: float) -> tuple[float, ...]:
        """Wanted times of candidates as shares of the step, for a source of this share of the target's time."""
        longest = max(self._usual_share(kind), min(self.largest_share(kind), share))
        return (*(z for z in LARGER if z <= longest), *SIZES)


def candidates(target: Target, *, budget_s: float, limit: int = LIMIT, own_sizes: bool = False) -> list[Candidate]:
    """Candidates for a target, the most promising first: of each motif, the most expensive first, the NEAREST sizes to
    its own share of the time; then their other sizes. With `own_sizes`, its own size comes first, or the largest ones
    if that is too long. The target's times must have been measured on the machine that makes the proxy."""
    nearest, others = [], []
    keys: set[str] = set()
    room = StepRoom.of(target, budget_s)
    for source, share in by_importance(sources(target)):
        first, rest = _nearest_first(source, share, room, own_sizes)
        nearest += first
        others += rest
        keys.update(c.key for c in first)
        if len(keys) >= limit:
            break
    chosen: dict[str, Candidate] = {}
    for candidate in [*nearest, *others]:
        if len(chosen) < limit:
            chosen.setdefault(candidate.key, candidate)
    return list(chosen.values())


def nearest_sizes(source: Source, room: StepRoom, *, own_sizes: bool) -> list[Candidate]:
    """A source's candidates that come first."""
    return _nearest_first(source, source.share, room, own_sizes)[0]


def _nearest_first(
    source: Source, share: float, room: StepRoom, own_sizes: bool
) -> tuple[list[Candidate], list[Candidate]]:
    """The candidates of a source that come first, and the others. `share` is the forward pass's share of the time, of
    the source or of its family."""
    share = min(share * _backward_too(source, room.mode), 1.0)
    of_source = _of_source(source, share, room)
    if own_sizes:
        return _own_size_first(source, of_source, share * room.budget_s, room.longest_s(source.kind))
    by_distance = sorted(of_source, key=lambda c: abs(math.log(c.time_s / (share * room.budget_s))))
    return by_distance[:NEAREST], by_distance[NEAREST:]


def _backward_too(source: Source, mode: str) -> float:
    """How many times as long as its forward pass a block takes in all, as estimated. A motif's time is that of forward
    calls; an operator by itself has no others."""
    if mode == "inference" or source.kind in ("parameters", "operator"):
        return 1.0
    try:
        forward_s, whole_s = (estimate_s(source.kind, source.config, training=t)[0] for t in (False, True))
    except OF_RULES:
        return 1.0
    return whole_s / forward_s


def _own_size_first(
    source: Source, candidates: list[Candidate], wanted_s: float, longest_s: float
) -> tuple[list[Candidate], list[Candidate]]:
    """The motif itself, and where one of it takes much more than all of its kind should (`wanted_s`), or is too long,
    the NEAREST that do not; and the others."""
    ordered = sorted((c for c in candidates if c.time_s <= longest_s), key=lambda c: (abs(math.log(c.scale)), c.key))
    own = [c for c in ordered if c.config == source.config]
    if own and own[0].time_s <= MOST_OF_KIND * wanted_s:
        first = own
    else:
        short = [c for c in ordered if c.time_s <= MOST_OF_KIND * wanted_s and c not in own]
        first = [*own, *(short or [c for c in ordered if c not in own])[:NEAREST]]
    return first, [c for c in ordered if c not in first]


def _of_source(source: Source, share: float, room: StepRoom) -> list[Candidate]:
    """None where the kind's rules fail on the motif's sizes: something of another size may stand for it."""
    try:
        return _sizes(source, share, _wanted(source, share, room), room)
    except OF_RULES:
        return []


def _wanted(source: Source, share: float, room: StepRoom) -> tuple[float, ...]:
    """Wanted times of a source's candidates as shares of the budget; `share` is its (or its family's) of the target."""
    if source.kind == "parameters":
        return tuple(share * part for part in PARTS if share * part >= SIZES[-1]) or SIZES[-1:]
    usual = room.usual_sizes(source.kind, share)
    wanted = max(tuple(z for z in usual if z <= ROOM * share), SIZES[-FEWEST:], key=len)
    if source.kind == "operator" and share < SIZES[-1]:  # it is there for what larger blocks cannot bring so little of
        return (*wanted, max(share, LEAST_OF_OPERATOR))
    return wanted


def _sizes(source: Source, share: float, sizes: tuple[float, ...], room: StepRoom) -> list[Candidate]:
    """Candidates with estimated times nearest to `sizes` (shares of the budget), and the motif itself if it fits. Its
    time ÷ its estimate holds for all: a GPU is thousands of times as fast as a core or two, and a random number or a
    function on transposed operands takes tens of times as long as its bytes."""
    kind, family = KINDS[source.kind], source.family
    budget_s, mode = room.budget_s, room.mode
    alone = source.kind == "parameters"
    block_s, optimizer_s = estimate_s(source.kind, source.config, training=alone, optimizer=source.optimizer)
    machine = source.time_s / (optimizer_s if alone else block_s)
    sized: list[tuple[float, float, Candidate]] = []
    for narrowing in NARROWINGS:
        narrow = source.config if narrowing == 1 else kind.narrowed(source.config, narrowing)
        if narrow is None:
            continue
        for divisor in DIVISORS:
            config = narrow if divisor == 1 else kind.scaled(narrow, divisor)
            if config is None or (divisor < 1 and source.time_s > sizes[0] * budget_s):
                continue
            block_s, optimizer_s = estimate_s(
                source.kind, config, training=mode == "training", optimizer=source.optimizer
            )
            time_s = block_s + machine * optimizer_s if alone else machine * block_s + optimizer_s
            candidate = Candidate(
                kind=source.kind,
                config=config,
                optimizer=source.optimizer,
                scale=1 / (divisor * narrowing),
                time_s=time_s,
                family=family,
                share=share,
            )
            sized.append((math.log2(narrowing), abs(math.log2(divisor)), candidate))
            if divisor > 1 and time_s < sizes[-1] / 4 * budget_s:
                break  # smaller ones are too short to be of use
    chosen = [_nearest(sized, size * budget_s, PENALTIES[0]) for size in sizes]
    if source.kind in WITH_WEIGHTS and (source.kind, mode) != ("recurrent", "inference"):
        chosen += [_nearest(sized, size * budget_s, PENALTIES[1]) for size in sizes if size >= SIZES[COARSE - 1]]
    original = next((c for _, _, c in sized if c.scale == 1.0), None)
    if original is not None and original.time_s <= room.longest_s(source.kind):
        nearest = min(chosen, key=lambda c: abs(math.log(c.time_s / original.time_s)))
        is_usual = sizes == room.usual_sizes(source.kind, share)
        others = [c for c in chosen if c is not nearest]  # none where all sizes are too large for the motif
        chosen = [*(others if is_usual and others else chosen), original]
    return list({c.key: c for c in chosen}.values())


def _nearest(sized: list[tuple[float, float, Candidate]], time_s: float, penalties: tuple[float, float]) -> Candidate:
    def distance(entry: tuple[float, float, Candidate]) -> tuple[float, str]:
        narrowed, divided, candidate = entry
        penalty = penalties[0] * narrowed + penalties[1] * divided
        return penalty + abs(math.log(candidate.time_s / time_s)), candidate.key

    return min(sized, key=distance)[2]
