"""Which blocks may go into a proxy: the mix's motifs at full size and at declared smaller sizes."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from statsnet.blocks import KINDS, Config, recognise
from statsnet.signatures.target import Target, TargetCluster

DIVISORS = (1, 2, 4, 8, 16, 32, 64, 128)
COVERED_SHARE = 0.995
"""Motifs are taken in order of time until they hold this share of the forward time that blocks can stand for."""


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


def candidates(target: Target, *, budget_s: float, limit: int = 220) -> list[Candidate]:
    """Candidates for a target whose times were measured where the proxy is made."""
    sources = _sources(target)
    chosen: dict[str, Candidate] = {}
    for source in _representatives(sources):
        for candidate in _sizes(source, budget_s):
            chosen.setdefault(candidate.key, candidate)
    ordered = sorted(chosen.values(), key=lambda c: c.key)
    if len(ordered) <= limit:
        return ordered
    by_group: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in ordered:
        by_group[json.dumps([candidate.kind, candidate.optimizer])].append(candidate)
    return sorted(_round_robin(by_group, limit), key=lambda c: c.key)


def _sources(target: Target) -> list[_Source]:
    found: dict[str, _Source] = {}
    optimizers = {m.name: m.signature.optimizer for m in target.members}
    for motif in target.motifs:
        clusters = [target.clusters[i] for i in motif.clusters]
        for run in _splits(clusters):
            recognised = recognise(run)
            if recognised is None:
                continue
            kind, config = recognised
            optimizer = optimizers[motif.member]
            per_call = sum(c.time_per_call_s or 0.0 for c in run)
            share = per_call * motif.count_per_s
            key = json.dumps([kind, config, optimizer], sort_keys=True)
            if key in found:
                found[key].share += share
            else:
                found[key] = _Source(kind, config, optimizer, per_call, share)
    return list(found.values())


def _splits(clusters: list[TargetCluster]) -> list[list[TargetCluster]]:
    """The motif as a whole and its operators one by one: small change for the solver."""
    return [clusters, *([c] for c in clusters)] if len(clusters) > 1 else [clusters]


def _representatives(sources: list[_Source]) -> list[_Source]:
    """Sources by falling share until COVERED_SHARE of the time is held; every kind keeps its largest."""
    ordered = sorted(sources, key=lambda s: (-s.share, json.dumps([s.kind, s.config], sort_keys=True)))
    total = sum(s.share for s in ordered)
    kept: list[_Source] = []
    held = 0.0
    kinds: set[str] = set()
    for source in ordered:
        if held < COVERED_SHARE * total or source.kind not in kinds:
            kept.append(source)
        kinds.add(source.kind)
        held += source.share
    return kept


def _sizes(source: _Source, budget_s: float) -> list[Candidate]:
    """Sizes from the largest that a quarter of the budget holds down to about a five-hundredth of it."""
    kind = KINDS[source.kind]
    found: list[Candidate] = []
    for divisor in DIVISORS:
        config = source.config if divisor == 1 else kind.scaled(source.config, divisor)
        if config is not None:
            found.append(_candidate(source, config, 1 / divisor))
    smallest = found[-1]
    for divisor in (2, 4, 8):
        if smallest.time_s / divisor * 4 < budget_s / 50:
            break
        narrow = kind.narrowed(smallest.config, divisor)
        if narrow is not None:
            found.append(_candidate(source, narrow, smallest.scale / divisor))
    fitting = [c for c in found if budget_s / 500 <= c.time_s <= budget_s / 4]
    if not fitting:
        fitting = [min(found, key=lambda c: abs(c.time_s - budget_s / 100))]
    return fitting[:1] + fitting[1:][-3::2] if len(fitting) > 4 else fitting


def _candidate(source: _Source, config: Config, scale: float) -> Candidate:
    return Candidate(
        kind=source.kind,
        config=config,
        optimizer=source.optimizer,
        scale=scale,
        time_s=source.time_s * scale,
    )


def _round_robin(groups: dict[str, list[Candidate]], limit: int) -> list[Candidate]:
    """`limit` candidates, the same number from each group as far as they reach, longest time first."""
    queues = [sorted(g, key=lambda c: (-c.time_s, c.key)) for _, g in sorted(groups.items())]
    chosen: list[Candidate] = []
    while len(chosen) < limit and any(queues):
        for queue in queues:
            if queue and len(chosen) < limit:
                chosen.append(queue.pop(0))
    return chosen
