"""A few small layers in place of all: for simulators whose time grows with every multiply-add.

Each distinct product of the suite is cut to many smaller sizes. Of all these, a few are chosen within the budget, with
repeats such that sums over them follow the suite's cycles on all arrays and dataflows of `systolic.SPREAD`
(pursuit.py). A size that several products can be cut to is said to come from the one whose utilisation over the
spread, and whose intensity, it stays nearest to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from statsnet.errors import UsageError
from statsnet.exports.manifest import Layer, Manifest, left_out_of
from statsnet.exports.pursuit import choose
from statsnet.exports.scaled_layers import scaled_layer, scaled_product
from statsnet.exports.systolic import SPREAD, USUAL, cycle_table, dims_of, total_cycles, utilisations
from statsnet.signatures.operators import REAL
from statsnet.signatures.products import Product
from statsnet.units import plural

MOST_LAYERS = 48

FEWER = 1000
"""If no budget is given, the smallest that is tried has so many times fewer multiply-adds than one step of each member,
or USUAL_MACS if that is less."""
USUAL_MACS, LEAST_FEWER = 50_000_000, 2
"""The largest budget is USUAL_MACS, or a thousandth (1 / FEWER) of a suite above 50 GMAC, but never more than half
(1 / LEAST_FEWER) of the suite. It does not shrink with the suite: what a layer needs to keep a large array busy does
not either."""
NEAR_ENOUGH = 0.05
"""No larger budget is tried once relative speeds on the usual arrays are predicted so near."""

USUAL_QUANTUM = 8
"""A coarser one leaves a small budget too few sizes to choose from."""

DIGITS = 6
"""Repeats are rounded, so that the last bits of sums, which differ between processors, do not reach the files."""
COVERED = 0.999
"""Products with this share of the multiply-adds are cut; the repeats stand for all."""

USUAL_COUNT = 4.0
"""How much the cycles of a design that is usual count beside those of another."""

OPERANDS_COUNT = 0.02
"""How much the elements of inputs, weights and outputs count beside one design's cycles: a tie-break, as small layers
move more of them per multiply-add whatever their sizes."""

Size = tuple[int, int, int]
"""Rows, columns and depth."""


@dataclass(frozen=True, slots=True)
class _Original:
    """A distinct product of the suite, the first layer that it is of, and how often its dense product runs."""

    product: Product
    layer: Layer
    repeats: float

    @property
    def macs(self) -> float:
        return self.repeats * self.product.dense_macs


def usual_budgets(manifest: Manifest) -> list[int]:
    """The budgets that are tried if none is given, each twice the one before."""
    most = min(max(USUAL_MACS, manifest.suite_macs / FEWER), manifest.suite_macs / LEAST_FEWER)
    budget, made = min(float(USUAL_MACS), manifest.suite_macs / FEWER), []
    while budget < most:
        made.append(int(budget))
        budget *= 2
    return [*(b for b in made if b), max(1, int(most))]


def scaled(
    manifest: Manifest, *, macs: int | None = None, quantum: int = USUAL_QUANTUM, signed: bool = True
) -> Manifest:
    """At most MOST_LAYERS scaled products, whose dense multiply-adds sum to at most `macs`. Without a budget, the
    smallest of `usual_budgets` that is near enough; if none is, the nearest.

    Dims are multiples of `quantum`, or as they were where they are smaller. If `signed`, repeats may be negative: from
    layers of several sizes, sums then reach what only larger ones do. Raises UsageError if there are no products, or if
    the budget is less than the smallest scaled layer takes.
    """
    originals = _originals(manifest)
    if not originals:
        raise UsageError(
            "there are no matrix products to scale",
            cause="only products have multiply-adds, by which layers are scaled",
            hint="export with --layers distinct holds every layer; synthesize without --macs makes a measured proxy",
        )
    tried: list[tuple[float, list[Layer]]] = []
    for budget in usual_budgets(manifest) if macs is None else [macs]:
        if layers := _layers(originals, budget, quantum, signed):
            tried.append((_spread_of(_ratio(originals, layers)[: len(USUAL)]), layers))
            if tried[-1][0] <= NEAR_ENOUGH:
                break
    if not tried:
        raise UsageError(
            f"no scaled layer takes as little as {budget:,} multiply-adds",
            cause=f"dims are multiples of {quantum}, or as they are where they are smaller",
            hint="give a larger --macs or a smaller --quantum",
        )
    return _with_words(manifest, originals, min(tried, key=lambda one: one[0])[1])


def _layers(originals: Sequence[_Original], macs: int, quantum: int, signed: bool) -> list[Layer]:
    """Those for one budget, the largest share of the multiply-adds first; none if it is too small for any."""
    covered = _covering(originals)
    cuts = [set(_cuts(o, quantum, macs)) for o in covered]
    sizes = np.array(sorted(set().union(*cuts)), dtype=np.int64)
    if not len(sizes):
        return []
    wanted = np.array([o.repeats for o in originals]) @ features(dims_of([o.product for o in originals]))
    cost = np.prod(sizes, axis=1, dtype=float)
    columns = (features(sizes) / wanted * _COUNTS).T
    choice = choose(columns, _COUNTS, cost, float(macs), MOST_LAYERS, signed=signed)
    largest_first = sorted(zip(choice.places, choice.weights, strict=True), key=lambda c: -c[1] * cost[c[0]])
    suite_macs = math.fsum(o.macs for o in originals)
    layers = []
    for index, (place, weight) in enumerate(largest_first):
        size: Size = tuple(map(int, sizes[place]))  # type: ignore[assignment]
        original, repeats = _nearest(size, covered, cuts), float(f"{weight:.{DIGITS}g}")
        layers.append(scaled_layer(
            scaled_product(original.product, size, quantum), original.product, original.layer.operator,
            REAL.get(original.layer.dtype, original.layer.dtype), index=index, repeats=repeats,
            macs_share=repeats * float(cost[place]) / suite_macs,
        ))  # fmt: skip
    return layers


def _originals(manifest: Manifest) -> list[_Original]:
    """Distinct in what an array sees, the largest share of the multiply-adds first."""
    found: dict[object, tuple[Product, Layer, list[float]]] = {}
    for layer in manifest.layers:
        for p in layer.products:
            kernel = (p.window.kernel, p.window.stride, p.window.dilation) if p.window else None
            key = (p.rows, p.columns, p.depth, kernel)
            found.setdefault(key, (p, layer, []))[2].append(layer.repeats * p.repeats)
    made = [_Original(p, layer, math.fsum(repeats)) for p, layer, repeats in found.values()]
    return sorted(made, key=lambda o: -o.macs)


def _covering(originals: Sequence[_Original]) -> list[_Original]:
    """The largest, up to COVERED."""
    left = COVERED * math.fsum(o.macs for o in originals)
    made = []
    for original in originals:
        if left > 0:
            made.append(original)
        left -= original.macs
    return made


def sizes_of_axis(size: int, quantum: int, together: int = 1) -> list[int]:
    """Sizes that an axis may have: 1, 2, 3, 4, 6, 8, 12 ... quanta, up to its own size. An axis that is shorter than a
    quantum stays. `together` is how many of its elements belong together: the taps of a window, for one channel."""
    units = size // together
    if units < quantum:
        return [size]
    quanta = {2**k for k in range(24)} | {3 * 2**k for k in range(23)} | {units // quantum}
    return [quantum * n * together for n in sorted(quanta) if quantum * n <= units]


def _cuts(original: _Original, quantum: int, macs: int) -> list[Size]:
    """Every size within the budget that a product can be cut to."""
    p = original.product
    taps = math.prod(p.window.kernel) if p.window and not p.window.transposed else 1
    axes = (sizes_of_axis(p.rows, quantum), sizes_of_axis(p.columns, quantum), sizes_of_axis(p.depth, quantum, taps))
    return [(r, c, d) for r in axes[0] for c in axes[1] for d in axes[2] if r * c * d <= macs]


def _nearest(size: Size, originals: Sequence[_Original], cuts: Sequence[set[Size]]) -> _Original:
    """Of the originals that can be cut to a size, the one that it stays nearest to: by the root mean square of the
    powers of two by which utilisation changes over the spread, and intensity does."""
    able = [o for o, of_original in zip(originals, cuts, strict=True) if size in of_original]
    before, after = dims_of([o.product for o in able]), np.array([size], dtype=np.int64)
    utilisation = np.log2(utilisations(after, SPREAD) / utilisations(before, SPREAD))
    intensity = np.log2(_intensity(after) / _intensity(before))
    return able[int(np.argmin(np.mean(utilisation**2, axis=1) + intensity**2))]


def _operands(dims: np.ndarray) -> np.ndarray:
    """Elements of inputs, weights and outputs [products, 3]."""
    rows, columns, depth = dims.astype(float).T
    return np.stack([rows * depth, depth * columns, rows * columns], axis=1)


def _intensity(dims: np.ndarray) -> np.ndarray:
    """Multiply-adds per element of the operands."""
    return np.asarray(np.prod(dims, axis=1, dtype=float) / _operands(dims).sum(axis=1))


def features(dims: np.ndarray) -> np.ndarray:
    """What sums over the scaled layers shall follow [products, features]."""
    return np.concatenate([cycle_table(dims, SPREAD), _operands(dims)], axis=1)


_COUNTS = np.array([USUAL_COUNT if design in USUAL else 1.0 for design in SPREAD] + [OPERANDS_COUNT] * 3)


def _ratio(originals: Sequence[_Original], layers: Sequence[Layer]) -> np.ndarray:
    """Cycles of the scaled layers by those of the suite, on each design of the spread."""
    before = total_cycles([(o.product, o.repeats) for o in originals], SPREAD)
    return np.asarray(total_cycles([(layer.products[0], layer.repeats) for layer in layers], SPREAD) / before)


def _spread_of(ratio: np.ndarray) -> float:
    """The largest error of a relative speed between two designs, given the ratio of the cycles on each."""
    return float(ratio.max() / ratio.min() - 1) if ratio.min() > 0 else math.inf


def _with_words(manifest: Manifest, originals: Sequence[_Original], layers: Sequence[Layer]) -> Manifest:
    """The scaled manifest, with what it leaves out, and what it does not preserve in words."""
    reasons = [(layer, why) for layer in manifest.layers if (why := layer.reason_against_products)]
    left_out = left_out_of(reasons, manifest.totals)
    ratio = _ratio(originals, layers)
    scalings = [layer.scaling for layer in layers if layer.scaling]
    moved = max((abs(s.prediction.largest_change) for s in scalings), default=0.0)
    macs = math.fsum(s.macs_share for s in scalings)
    time_share = math.fsum(r.time_share or 0.0 for r in left_out)
    minus = [layer.name for layer in layers if layer.repeats < 0]
    count = "counts" if len(minus) == 1 else "count"
    words = (
        f"by predicted stall-free cycles, relative speeds between any two of {len(USUAL)} arrays and dataflows whose "
        f"sides are powers of two are within {_spread_of(ratio[: len(USUAL)]):.1%} of the suite's, and with "
        f"{len(SPREAD) - len(USUAL)} of any size within {_spread_of(ratio):.1%}; the layers stand for {macs:.1%} of "
        "the suite's multiply-adds",
        f"not preserved: the utilisation of a single layer, which moves by up to {moved:.0%} on one of these arrays",
        "not preserved: which operands stay in a buffer or cache, because working sets are smaller; so stalls, "
        "bandwidth and the energy of memories differ",
        "not preserved: the order of layers, and what one leaves in memory for the next",
        f"not preserved: operators that are no matrix products, with {time_share:.0%} of the reference device's time",
        *([f"{plural(len(minus), 'layer')} {count} negatively ({', '.join(minus)}): take what a simulator counts "
           "there from the sum; without this, start-ups of small layers would count too much"] if minus else []),
    )  # fmt: skip
    return replace(manifest, layer_mode="scaled", layers=tuple(layers), not_preserved=words, left_out=left_out)
