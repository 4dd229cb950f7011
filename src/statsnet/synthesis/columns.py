"""Columns of the integer program: what a block costs, first measured alone, then learnt in place."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

from statsnet.blocks import Config
from statsnet.synthesis.candidates import Candidate
from statsnet.synthesis.rows import Load, Rows, Work, works_of
from statsnet.synthesis.towers import Placed, Tower

LARGEST_CORRECTION = 2.0
"""A kernel class runs at most this many times faster or slower in place than alone, as far as we believe."""


class Columns:
    """Loads of all candidates, each with and without the optimizer's step on its parameters.

    A block that has been part of a measured network has the times that it took there. The others' times are
    multiplied, kernel class by kernel class, by what the measured ones' have changed.
    """

    def __init__(self, candidates: list[Candidate], measured: list[dict[str, Any]]) -> None:
        self.placed: list[Placed] = []
        self._block: dict[str, Load] = {}
        self._optimizer: dict[str, Load] = {}
        self._in_place: dict[str, list[tuple[Work, ...]]] = defaultdict(list)
        found: dict[str, Placed] = {}
        for candidate, column in zip(candidates, measured, strict=True):
            plain = Placed(kind=candidate.kind, config=candidate.config)
            self._block[_identity(plain)] = _load(column["block"])
            found[plain.key] = plain
            if column["optimizer"]["operators"]:
                stepped = replace(plain, optimizer=candidate.optimizer)
                self._optimizer[stepped.key] = _load(column["optimizer"])
                found[stepped.key] = stepped
        self.placed = [found[key] for key in sorted(found)]

    def learn(self, towers: list[Tower], blocks: list[list[dict[str, Any]]]) -> float:
        """Take in the times of one measured network: `blocks[i][j]` is the j-th block of the i-th tower.

        Returns how much slower the machine was than before, judged by the blocks that it has run before. Machines
        drift by several percent within minutes; what is learnt has that factor taken off.
        """
        sums: dict[str, list[tuple[Work, ...]]] = defaultdict(list)
        for tower, parts in zip(towers, blocks, strict=True):
            for placed, part in zip(tower.blocks, parts, strict=True):
                sums[_identity(placed)].append(works_of(part))
        means = {identity: _mean(samples) for identity, samples in sums.items()}
        known = {i: _mean(self._in_place[i]) for i in means if i in self._in_place}
        before = sum(_time_s(works) for works in known.values())
        drift = sum(_time_s(means[i]) for i in known) / before if before > 0 else 1.0
        for identity, works in means.items():
            self._in_place[identity].append(Load(works=works, framework_s=0.0).slowed(1 / drift).works)
        return drift

    @property
    def seen(self) -> np.ndarray:
        """Whether each column's block has been measured in place."""
        return np.array([_identity(p) in self._in_place for p in self.placed])

    def matrix(self, rows: Rows, budget_s: float, drift: float = 1.0) -> np.ndarray:
        """Rows × columns for a network that is to fill `budget_s` on a machine slower by `drift`."""
        corrections = self._corrections()
        loads = [self._load(p, corrections).slowed(drift) for p in self.placed]
        return np.stack([rows.vector(load, budget_s) for load in loads], axis=1)

    def _load(self, placed: Placed, corrections: dict[str, float]) -> Load:
        identity = _identity(placed)
        block = self._block[identity]
        seen = self._in_place.get(identity)
        works = _mean(seen) if seen else _corrected(block.works, corrections)
        framework = block.framework_s
        if placed.key in self._optimizer:
            optimizer = self._optimizer[placed.key]
            works += _corrected(optimizer.works, corrections)
            framework += optimizer.framework_s
        return Load(works=works, framework_s=framework)

    def _corrections(self) -> dict[str, float]:
        """Time in place ÷ time alone, by kernel class, over the blocks that were measured both ways."""
        alone: dict[str, float] = defaultdict(float)
        in_place: dict[str, float] = defaultdict(float)
        for identity, samples in self._in_place.items():
            for work in self._block[identity].works:
                alone[work.kernel_class] += work.time_s
            for work in _mean(samples):
                in_place[work.kernel_class] += work.time_s
        return {
            k: min(max(in_place[k] / t, 1 / LARGEST_CORRECTION), LARGEST_CORRECTION)
            for k, t in alone.items()
            if t > 0 and in_place.get(k, 0.0) > 0
        }


def _identity(placed: Placed) -> str:
    """Blocks of equal kind and dimensions run alike, whoever steps their parameters."""
    config: Config = placed.config
    return json.dumps([placed.kind, config], sort_keys=True)


def _load(part: dict[str, Any]) -> Load:
    return Load(works=works_of(part), framework_s=part["framework_s"])


def _time_s(works: tuple[Work, ...]) -> float:
    return sum(w.time_s for w in works)


def _corrected(works: tuple[Work, ...], corrections: dict[str, float]) -> tuple[Work, ...]:
    return tuple(replace(w, time_s=w.time_s * corrections.get(w.kernel_class, 1.0)) for w in works)


def _mean(samples: list[tuple[Work, ...]]) -> tuple[Work, ...]:
    """Works of several measurements of one block, each with its share."""
    share = 1.0 / len(samples)
    return tuple(
        replace(
            w, time_s=w.time_s * share, flops=w.flops * share, bytes=w.bytes * share, calls=w.calls * share
        )
        for works in samples
        for w in works
    )
