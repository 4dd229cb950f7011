"""Which blocks may go into a proxy: the mix's motifs at full size and at declared smaller sizes."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from statsnet.blocks import KINDS, Config, readings
from statsnet.signatures.operators import TensorSpec, is_tensor
from statsnet.signatures.target import Target, TargetCluster
from statsnet.synthesis.estimate import estimate_s

DIVISORS = (1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)
"""Of the safe axis. Those below 1 join several small calls, such as look-ups in many tables, into one."""

NARROWINGS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
PENALTIES = ((0.25, 0.05), (0.05, 0.25))
"""Of narrowing a block (fewer channels) and of dividing its safe axis, by a half each: it is taken where it is nearer
to a wanted time by this much in ln. A divided product keeps its weights, so that it reads more of them for each FLOP;
a narrowed one runs a smaller kernel. Blocks with weights are candidates both ways, others the first."""

WITH_WEIGHTS = frozenset({"conv", "deconv", "linear", "recurrent"})
COARSE = 3
"""So many of SIZES are wanted the second way."""

ROOM = 16.0
"""A motif is wanted in sizes up to so many times its own share of the time, the leader of a family up to so many times
the family's: what is larger would stand for something else."""

FEWEST = 2
"""But in so many sizes at least."""

SIZES = (1 / 8, 1 / 25, 1 / 80, 1 / 250, 1 / 600)
"""Wanted times of a motif's candidates as shares of the budget: coarse ones to fill it, fine ones to balance it."""

LARGEST_SHARE = 1 / 6
"""Of the budget that one block may take: what is peculiar to a block is not to become the network's. A motif at its own
size is a candidate where it takes no more."""

LIMIT = 360
"""Candidates at most; each takes about a tenth of a second to measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A block that may be repeated in the proxy. `scale` is its size over the original's, `time_s` an estimate."""

    kind: str
    config: Config
    optimizer: str | None
    scale: float
    time_s: float

    @property
    def key(self) -> str:
        return json.dumps([self.kind, self.config, self.optimizer], sort_keys=True)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "config": self.config, "optimizer": self.optimizer}


@dataclass(slots=True)
class _Source:
    """A motif of the mix with its time per call and its share of the target's time."""

    kind: str
    config: Config
    optimizer: str | None
    time_s: float
    share: float


def candidates(target: Target, *, budget_s: float, limit: int = LIMIT) -> list[Candidate]:
    """Candidates for a target whose times were measured where the proxy is made, sorted by key."""
    chosen: dict[str, Candidate] = {}
    training = any(m.signature.mode == "training" for m in target.members)
    for source, share in _by_importance(_sources(target)):
        sizes = max(tuple(z for z in SIZES if z <= ROOM * share), SIZES[-FEWEST:], key=len)
        for candidate in _sizes(source, sizes, budget_s, training):
            if len(chosen) < limit:
                chosen.setdefault(candidate.key, candidate)
    return [chosen[key] for key in sorted(chosen)]


def _sources(target: Target) -> list[_Source]:
    found: dict[str, _Source] = {}
    strided = _strided_gradients(target)
    optimizers = {m.name: m.signature.optimizer for m in target.members}
    for motif in target.motifs:
        clusters = [target.clusters[i] for i in motif.clusters]
        optimizer = optimizers[motif.member]
        for run in _splits(clusters):
            per_call = sum(c.time_per_call_s or 0.0 for c in run)
            for kind, config in readings(run):
                joined = KINDS[kind].joined(config) if (motif.member, _written(run[-1])) in strided else None
                for variant in (config, *([joined] if joined else [])):
                    key = json.dumps([kind, variant, optimizer], sort_keys=True)
                    source = found.setdefault(key, _Source(kind, variant, optimizer, per_call, 0.0))
                    source.share += per_call * motif.count_per_s
    return list(found.values())


def _strided_gradients(target: Target) -> set[tuple[str, tuple[int, ...]]]:
    """(member, shape) of gradients that arrive as parts of wider ones, as from behind a concatenation."""
    found = set()
    for cluster in target.clusters:
        first = next((TensorSpec.from_dict(a) for a in cluster.args if is_tensor(a)), None)
        if cluster.phase != "backward" or first is None or 0 in (first.strides or ()):
            continue  # a stride of 0: an expanded one, the gradient of a sum
        if first.layout == "strided":
            found.add((cluster.member, first.shape))
    return found


def _written(cluster: TargetCluster) -> tuple[int, ...]:
    first = next((o for o in cluster.outputs if o is not None), None)
    return tuple(first["shape"]) if first else ()


def _splits(clusters: list[TargetCluster]) -> list[list[TargetCluster]]:
    """The motif as a whole and its operators one by one: small change for the solver."""
    return [clusters, *([c] for c in clusters)] if len(clusters) > 1 else [clusters]


def _by_importance(sources: list[_Source]) -> list[tuple[_Source, float]]:
    """The largest motif of every family (kind, functions, kernel) first, with its family's share of the time; then all
    others with their own; each by share."""
    ordered = sorted(sources, key=lambda s: (-s.share, json.dumps([s.kind, s.config], sort_keys=True)))
    families: dict[str, list[_Source]] = defaultdict(list)
    for source in ordered:
        families[_family(source)].append(source)
    leaders = [(members[0], sum(s.share for s in members)) for members in families.values()]
    others = {id(s) for members in families.values() for s in members[1:]}
    return [*sorted(leaders, key=lambda x: -x[1]), *((s, s.share) for s in ordered if id(s) in others)]


def _family(source: _Source) -> str:
    what = ("functions", "activation", "cell", "kernel", "kind", "mode", "norm", "causal", "function", "joined",
            "weight_first_axis_in", "transposed")  # fmt: skip
    named = {k: v for k, v in source.config.items() if k in what}
    return json.dumps(
        [source.kind, named, source.optimizer, source.config.get("groups", 1) > 1], sort_keys=True
    )


def _sizes(source: _Source, sizes: tuple[float, ...], budget_s: float, training: bool) -> list[Candidate]:
    """Those whose estimated times are nearest to `sizes`, shares of the budget; and the motif itself where it fits."""
    kind = KINDS[source.kind]
    full_forward = estimate_s(source.kind, source.config, training=False)
    machine = min(max(source.time_s / full_forward, 0.2), 5.0)
    found: list[tuple[float, float, Candidate]] = []
    for narrowing in NARROWINGS:
        narrow = source.config if narrowing == 1 else kind.narrowed(source.config, narrowing)
        if narrow is None:
            continue
        for divisor in DIVISORS:
            config = narrow if divisor == 1 else kind.scaled(narrow, divisor)
            if config is None or (divisor < 1 and source.time_s > SIZES[0] * budget_s):
                continue
            time_s = machine * estimate_s(source.kind, config, training=training, optimizer=source.optimizer)
            candidate = Candidate(
                kind=source.kind,
                config=config,
                optimizer=source.optimizer,
                scale=1 / (divisor * narrowing),
                time_s=time_s,
            )
            found.append((math.log2(narrowing), abs(math.log2(divisor)), candidate))
            if time_s < SIZES[-1] / 4 * budget_s:
                break  # what is smaller still is of no use
    chosen = [_nearest(found, size * budget_s, PENALTIES[0]) for size in sizes]
    if source.kind in WITH_WEIGHTS:
        chosen += [_nearest(found, size * budget_s, PENALTIES[1]) for size in sizes if size in SIZES[:COARSE]]
    original = next((c for _, _, c in found if c.scale == 1.0), None)
    if original is not None and original.time_s <= LARGEST_SHARE * budget_s:
        nearest = min(chosen, key=lambda c: abs(math.log(c.time_s / original.time_s)))
        chosen = [*(c for c in chosen if c is not nearest or sizes != SIZES), original]
    return list({c.key: c for c in chosen}.values())


def _nearest(
    found: list[tuple[float, float, Candidate]], time_s: float, penalties: tuple[float, float]
) -> Candidate:
    def away(entry: tuple[float, float, Candidate]) -> tuple[float, str]:
        narrowed, divided, candidate = entry
        penalty = penalties[0] * narrowed + penalties[1] * divided
        return penalty + abs(math.log(candidate.time_s / time_s)), candidate.key

    return min(found, key=away)[2]
