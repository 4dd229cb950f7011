"""Fewer or smaller layers in place of a suite's, for simulators: StatsNet's two ways, and simpler ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from statsnet.exports.manifest import Manifest
from statsnet.exports.scalesim import rows_of
from statsnet.exports.systolic import Design, total_cycles
from statsnet.signatures.products import Product

SEEDS = 25


@dataclass(frozen=True, slots=True)
class Layers:
    """Products to simulate once each, with how often each counts."""

    products: tuple[tuple[Product, float], ...]

    @property
    def macs(self) -> int:
        """What one pass over them costs."""
        return sum(p.dense_macs for p, _ in self.products)

    def cycles(self, designs: Sequence[Design]) -> np.ndarray:
        return total_cycles(self.products, designs)


@dataclass(frozen=True, slots=True)
class Ranking:
    """How cycles on some designs compare with the suite's: pairs of designs that differ by more than `APART`, how many
    of them are ordered otherwise, the largest error of a relative speed, and the mean factor of the cycles."""

    pairs: int
    misordered: int
    relative_error: float
    factor: float


APART = 0.05


def ranking(suite: np.ndarray, other: np.ndarray) -> Ranking:
    """Of cycles on the same designs."""
    differ = suite[:, None] > (1 + APART) * suite[None, :]
    ratio = other / suite
    return Ranking(
        pairs=int(differ.sum()),
        misordered=int((differ & ~(other[:, None] > other[None, :])).sum()),
        relative_error=float(ratio.max() / ratio.min() - 1),
        factor=float(np.exp(np.mean(np.log(ratio)))),
    )


def layers_of(manifest: Manifest) -> Layers:
    """Each distinct product once."""
    return Layers(tuple((row.product, row.repeats) for row in rows_of(manifest)))


def halved(layers: Layers) -> Layers:
    """Every dim halved, as often as before."""
    return Layers(tuple(
        (replace(p, rows=-(-p.rows // 2), columns=-(-p.columns // 2), depth=-(-p.depth // 2), window=None), repeats)
        for p, repeats in layers.products
    ))  # fmt: skip


def most_expensive(layers: Layers, count: int) -> Layers:
    """Those with the most multiply-adds in all, at full size."""
    ordered = sorted(layers.products, key=lambda pair: -pair[1] * pair[0].dense_macs)
    return Layers(tuple(ordered[:count]))


def randomly_chosen(layers: Layers, count: int, designs: Sequence[Design]) -> Layers:
    """Some at full size, without a reason: of SEEDS draws the one whose relative speeds err as much as the median's."""
    suite, draws = layers.cycles(designs), []
    for seed in range(SEEDS):
        places = np.random.RandomState(seed).choice(
            len(layers.products), min(count, len(layers.products)), replace=False
        )
        drawn = Layers(tuple(layers.products[i] for i in sorted(places)))
        draws.append((ranking(suite, drawn.cycles(designs)).relative_error, seed, drawn))
    return sorted(draws, key=lambda draw: draw[:2])[SEEDS // 2][2]
