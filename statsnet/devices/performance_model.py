"""How long an operator takes on a device, from a model that was fitted to a table: evaluated with numpy alone.

A time is an analytic floor (a call's least time, plus work over reached rates) times exp(residual). The residual is the
sum of boosted trees over the features of operator_features.py, or the median of a forest over them, or the mean of a
Gaussian process where there are few rows, or half of it and half of trees. fit_performance.py fits them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from statsnet.devices.hardware import chip_of
from statsnet.devices.operator_features import Described, described
from statsnet.devices.tables.row import Direction, TableRow
from statsnet.devices.tables.words import LONGEST_WORD, OPERATOR_DIMS
from statsnet.signatures.limits import Finite

LEAF = -1
STEP = 5e-4
"""Leaves are kept as whole multiples of this; a residual of 1e-3 is a thousandth of the time."""

AT_ONCE = 4096
Count = Annotated[int, Meta(ge=0, le=2**40)]
Positive = Annotated[float, Meta(gt=0, le=1e18)]
Word = Annotated[str, Meta(max_length=LONGEST_WORD)]
Integers = tuple[Annotated[int, Meta(ge=-(2**62), le=2**62)], ...]
LogRatio = Annotated[float, Meta(ge=-50, le=50)]
"""Of times: beyond it, no exponential means anything."""

Evidence = Literal["exact", "model", "roofline"]
"""What a time rests on: the same call was timed, a model of its kind, or the device's rates alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """An operator takes at least `latency_s`, and its work at these rates: the square root of the sum of squares of
    computing and moving."""

    latency_s: Positive
    flops_per_s: Positive
    bytes_per_s: Positive

    def seconds(self, flops: np.ndarray, nbytes: np.ndarray) -> np.ndarray:
        """Shapes (n,)."""
        return np.asarray(self.latency_s + np.hypot(flops / self.flops_per_s, nbytes / self.bytes_per_s))


@dataclass(frozen=True, kw_only=True)
class Trees:
    """Boosted regression trees. Nodes stand tree after tree, each tree in preorder: a node, all of its left side, its
    right side. `feature` is the feature that a node asks for, LEAF for a leaf; `value` is the place of its threshold
    among the feature's `thresholds` (at most it: left), for a leaf its multiple of STEP."""

    thresholds: tuple[tuple[Finite, ...], ...]
    feature: Integers
    value: Integers
    base: Finite
    middle: bool = False
    """Whether the median over all trees counts, not their sum."""

    @cached_property
    def _flat(self) -> tuple[np.ndarray, ...]:
        """Feature, threshold or leaf, right child, and roots. Raises ValueError if the nodes are no trees."""
        n = len(self.feature)
        if len(self.value) != n:
            raise ValueError("feature and value differ in length")
        right, numbers, roots = np.zeros(n, dtype=np.int64), np.zeros(n), []
        waiting: list[int] = []
        begins = True
        for i, (feature, value) in enumerate(zip(self.feature, self.value, strict=True)):
            if begins:
                roots.append(i)
                begins = False
            if feature == LEAF:
                numbers[i] = value * STEP
                if waiting:
                    right[waiting.pop()] = i + 1
                else:
                    begins = True
            else:
                if not 0 <= feature < len(self.thresholds) or not 0 <= value < len(self.thresholds[feature]):
                    raise ValueError(f"node {i} asks for a threshold that is not there")
                numbers[i] = self.thresholds[feature][value]
                waiting.append(i)
        if waiting or not begins:
            raise ValueError("the last tree is not complete")
        return np.array(self.feature), numbers, right, np.array(roots, dtype=np.int64)

    def check(self) -> None:
        """Raises ValueError if the nodes are no trees."""
        _ = self._flat

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Shape (n, features) to (n,)."""
        return np.concatenate([self._some(features[i : i + AT_ONCE]) for i in range(0, len(features), AT_ONCE)])

    def _some(self, features: np.ndarray) -> np.ndarray:
        feature, number, right, roots = self._flat
        rows = np.arange(len(features))[:, None]
        at = np.broadcast_to(roots, (len(features), len(roots))).copy()
        while (inner := feature[at] != LEAF).any():
            left = features[rows, np.where(inner, feature[at], 0)] <= number[at]
            at = np.where(inner, np.where(left, at + 1, right[at]), at)
        values = number[at]
        return np.asarray(self.base + (np.median(values, axis=1) if self.middle else values.sum(axis=1)))


@dataclass(frozen=True, kw_only=True)
class Process:
    """Mean of a Gaussian process with a Matérn kernel (3/2) over standardised features: `dims` and `variants` of the
    rows that it was fitted to, and their `weights`. `length` is in standard deviations."""

    dims: tuple[Integers, ...]
    variants: Integers
    weights: tuple[Finite, ...]
    mean: tuple[Finite, ...]
    scale: tuple[Positive, ...]
    length: Positive
    base: Finite

    def predict(self, features: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """Shape (n, d) to (n,); `seen`, of shape (m, d), are the features of `dims`."""
        mean, scale = np.array(self.mean), np.array(self.scale)
        kernel = matern((features - mean) / scale, (seen - mean) / scale, self.length)
        return np.asarray(self.base + kernel @ np.array(self.weights))


def matern(a: np.ndarray, b: np.ndarray, length: float) -> np.ndarray:
    """Kernel of shape (n, m) for (n, d) and (m, d)."""
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None] - 2.0 * a @ b.T
    distance = np.sqrt(np.maximum(squares, 0.0)) * (math.sqrt(3.0) / length)
    return np.asarray((1.0 + distance) * np.exp(-distance))


LEAST_FOR_95 = 39
"""So many left-out rows it takes to say within what 95 % of new ones lie: 2 / (rows + 1) lie outside them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """How far rows were off that the fit had not seen. `median_error`, `p90_error`: of |predicted ÷ measured − 1|. The
    bounds are of ln(measured ÷ predicted), for four fifths and 95 % of new rows (split conformal); of fewer than 9 or
    LEAST_FOR_95 rows, they are the smallest and the largest."""

    rows: Count
    median_error: Finite
    p90_error: Finite
    low_80: LogRatio
    high_80: LogRatio
    low_95: LogRatio
    high_95: LogRatio


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Seconds of one call."""

    time_s: float
    evidence: Evidence = "model"


@dataclass(frozen=True, kw_only=True)
class KindModel:
    """One kind of operator on one device, from one source."""

    source: Word
    operator: Word
    dtype: Word
    direction: Direction
    names: tuple[Word, ...]
    """Names of the dims, in the order of the table."""
    variants: tuple[Word, ...]
    features: tuple[Word, ...]
    rows: Count
    floor: Floor
    trees: Trees | None
    process: Process | None
    held_out: HeldOut

    @cached_property
    def _seen(self) -> dict[str, np.ndarray]:
        """Features of the process's rows on a chip, by device."""
        return {}

    def predict(self, device: str, dims: Sequence[Sequence[int]], variants: Sequence[str]) -> np.ndarray:
        """Seconds of calls whose dims stand in the order of `names`; shape (n,). An unknown variant is taken as the
        one that begins alike, else as the commonest."""
        places = [self._place(v) for v in variants]
        works = [self._described(device, d, v) for d, v in zip(dims, places, strict=True)]
        return np.asarray(self._floor_s(works) * np.exp(self._residual(device, works, places)))

    def _place(self, variant: str) -> int:
        if variant in self.variants:
            return self.variants.index(variant)
        first = variant.partition(" ")[0]
        alike = [i for i, known in enumerate(self.variants) if known.partition(" ")[0] == first]
        return alike[0] if alike else 0

    def _described(self, device: str, dims: Sequence[int], variant: int) -> Described:
        sizes = dict(zip(self.names, dims, strict=True))
        return described(self.operator, self.dtype, sizes, self.variants[variant], self.direction, chip_of(device))

    def _floor_s(self, works: Sequence[Described]) -> np.ndarray:
        return self.floor.seconds(np.array([w.flops for w in works]), np.array([w.nbytes for w in works]))

    def _residual(self, device: str, works: Sequence[Described], places: Sequence[int]) -> np.ndarray:
        x = matrix(works, self.features, places, len(self.variants))
        parts = []
        if self.trees is not None:
            parts.append(self.trees.predict(x))
        if (p := self.process) is not None:
            if device not in self._seen:
                seen = [self._described(device, d, v) for d, v in zip(p.dims, p.variants, strict=True)]
                self._seen[device] = matrix(seen, self.features, p.variants, len(self.variants))
            parts.append(p.predict(x, self._seen[device]))
        return np.mean(parts, axis=0) if parts else np.zeros(len(works))


def matrix(works: Sequence[Described], names: Sequence[str], variants: Sequence[int], variant_count: int) -> np.ndarray:
    """Features of shape (n, names + variants): the variant is a flag for each. Rounded, so that a time does not depend
    on the last bit of a logarithm."""
    x = np.array([[w.features[name] for name in names] for w in works]).reshape(len(works), len(names))
    flags = np.zeros((len(works), variant_count if variant_count > 1 else 0))
    if flags.shape[1]:
        flags[np.arange(len(works)), np.asarray(variants)] = 1.0
    return np.round(np.hstack([x, flags]), 5)


def ordered(dims: Sequence[tuple[str, int]], names: Sequence[str]) -> tuple[int, ...] | None:
    """Sizes in the order of `names`; None if they are not those."""
    given = dict(dims)
    if set(given) != set(names):
        return None
    return tuple(given[name] for name in names)


def predict_rows(model: KindModel, device: str, rows: Sequence[TableRow]) -> np.ndarray:
    """Seconds of rows of this kind. Raises ValueError for a row with other dims."""
    dims = [ordered(row.dims, model.names) for row in rows]
    if None in dims:
        raise ValueError(f"not all rows have the dims {', '.join(model.names)}")
    return model.predict(device, [d for d in dims if d is not None], [row.variant for row in rows])


def names_of(row: TableRow) -> tuple[str, ...]:
    """Names of a row's dims, in the order that its operator has."""
    return OPERATOR_DIMS.get(row.operator) or tuple(name for name, _ in row.dims)


Kind = tuple[str, str, str, tuple[str, ...]]


def kind_of(row: TableRow) -> Kind:
    """What one model is for: operator, dtype, direction and names of the dims."""
    return (row.operator, row.dtype, row.direction, names_of(row))
