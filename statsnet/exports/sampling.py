"""Some of the distinct layers, at full size, in place of all: for programs that shrinking would mislead, but which take
time for every multiply-add.

Distinct layers are exact, and none can be missing if they are to be: the cycles of two different products are never in
the same ratio on all arrays. Within a percent or so, some can be: their work is shared out to others, whose repeats are
fitted so that sums over them follow the suite's cycles on all arrays and dataflows of `systolic.SPREAD` (pursuit.py).
Layers that are no matrix products keep their repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from statsnet.errors import UsageError
from statsnet.exports.manifest import Layer, Manifest
from statsnet.exports.pursuit import choose
from statsnet.exports.scaling import DIGITS, features
from statsnet.exports.systolic import SPREAD, dims_of

MOST_LAYERS = 32
FEWER = 2.0
"""The budget if none is given: so many times fewer multiply-adds than one step of each member."""


def sampled(manifest: Manifest, *, macs: int | None = None) -> Manifest:
    """At most MOST_LAYERS layers with products, in which one pass over each distinct product takes at most `macs` dense
    multiply-adds; and all layers without. Raises UsageError if there are no products, or if each takes more."""
    layers = [layer for layer in manifest.layers if layer.products]
    if not layers:
        raise UsageError("there are no matrix products to sample", hint="--layers distinct holds every layer")
    budget = manifest.suite_macs / FEWER if macs is None else float(macs)
    cost = np.array([sum(p.dense_macs for p in {p.alone for p in layer.products}) for layer in layers], dtype=float)
    able = np.nonzero(cost <= budget)[0]
    if not len(able):
        raise UsageError(
            f"no layer takes as little as {budget:,.0f} multiply-adds",
            cause=f"the smallest takes {cost.min():,.0f}, and sampled layers keep their size",
            hint="give a larger --macs, or --layers scaled",
        )
    table = np.stack([_features(layer) for layer in layers])
    wanted = np.array([layer.repeats for layer in layers]) @ table
    choice = choose((table[able] / wanted).T, np.ones(table.shape[1]), cost[able], budget, MOST_LAYERS)
    repeats = {layers[able[place]].index: float(f"{weight:.{DIGITS}g}")
               for place, weight in zip(choice.places, choice.weights, strict=True)}  # fmt: skip
    kept = [
        replace(layer, repeats=repeats.get(layer.index, layer.repeats), uses=(), depends_on=())
        for layer in manifest.layers
        if layer.index in repeats or not layer.products
    ]
    return _with_words(manifest, layers, [layer for layer in kept if layer.products], kept)


def _features(layer: Layer) -> np.ndarray:
    """Cycles of all products of one call on each design of the spread, then elements of inputs, weights and outputs."""
    return np.asarray(np.array([p.repeats for p in layer.products]) @ features(dims_of(layer.products)))


def _with_words(
    manifest: Manifest, layers: Sequence[Layer], chosen: Sequence[Layer], kept: Sequence[Layer]
) -> Manifest:
    before, after = (
        np.array([layer.repeats for layer in some]) @ np.stack([_features(layer) for layer in some])
        for some in (layers, chosen)
    )
    ratio = (after / before)[: len(SPREAD)]
    words = (
        f"{len(chosen)} of {len(layers)} layers with matrix products, at full size, with fitted repeats: predicted "
        f"stall-free cycles are within {np.max(np.abs(ratio - 1)):.1%} of the suite's on the {len(SPREAD)} arrays and "
        "dataflows of the spread",
        "not preserved: how often each layer runs, which layers follow each other, and counts of single members",
    )
    return replace(manifest, layer_mode="sampled", layers=tuple(kept), not_preserved=words)
