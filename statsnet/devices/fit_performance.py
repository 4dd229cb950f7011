"""Fits the model of performance_model.py to a table's times on one device, and checks it on rows that it has not seen.

Rows are left out by their dims: all variants of the same dims are left out together. Bounds follow from the errors of
left-out rows (split conformal prediction: Lei et al. 2018), so they hold for new rows of the same kind.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from statsnet.devices.hardware import chip_of
from statsnet.devices.operator_features import described
from statsnet.devices.performance_model import (
    LEAF,
    STEP,
    Floor,
    HeldOut,
    Kind,
    KindModel,
    Process,
    Trees,
    kind_of,
    matern,
    matrix,
    names_of,
    ordered,
)
from statsnet.devices.tables.row import TableRow
from statsnet.progress import Progress, Report, silent

FEWEST = 12
"""Kinds with rows of fewer different dims have no model."""

MOST = 5_000
"""Of more rows, this many are drawn at random."""

FOLDS = 5
ONE_SPLIT = 1_200
"""With more rows, only one part in FOLDS is left out, once."""

PROCESS_ROWS = 500
"""Up to so many rows, a Gaussian process is tried as well."""

LENGTHS = (2.0, 4.0, 8.0, 16.0)
NOISES = (1e-4, 1e-3, 1e-2, 5e-2)
MOST_VARIANTS = 8


def fit_device(rows: Iterable[TableRow], device: str, report: Report = silent) -> list[KindModel]:
    """A model of each source's kinds of operator that have enough rows."""
    kinds: dict[tuple[str, Kind], list[TableRow]] = defaultdict(list)
    for row in rows:
        if device in row.time_s:
            kinds[row.source, kind_of(row)].append(row)
    models = []
    for source, kind in sorted(kinds):
        of_kind = kinds[source, kind]
        if is_enough(of_kind, FEWEST):
            report(Progress(stage=f"fitting {device}: {source} {' '.join(kind[:3])}"))
            models.append(fit_kind(of_kind, device))
    return models


def is_enough(rows: Sequence[TableRow], fewest: int) -> bool:
    """Whether rows have at least so many different dims. Rows with equal dims say nothing of each other, for they are
    left out together."""
    return len({row.dims for row in rows}) >= fewest


@dataclass(frozen=True, slots=True)
class _Data:
    x: np.ndarray
    flops: np.ndarray
    nbytes: np.ndarray
    log_s: np.ndarray
    groups: np.ndarray
    dims: list[tuple[int, ...]]
    variants: list[int]

    def take(self, places: np.ndarray) -> _Data:
        return _Data(
            self.x[places], self.flops[places], self.nbytes[places], self.log_s[places], self.groups[places],
            [self.dims[i] for i in places], [self.variants[i] for i in places],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Fitted:
    """One fit: the floor, and what is left over explained in one or two ways."""

    floor: Floor
    trees: Trees
    process: Process | None
    seen: np.ndarray
    """Features of the rows that it was fitted to."""

    def residuals(self, data: _Data) -> tuple[np.ndarray, np.ndarray | None]:
        base = np.log(self.floor.seconds(data.flops, data.nbytes))
        by_trees = data.log_s - base - self.trees.predict(data.x)
        if self.process is None:
            return by_trees, None
        return by_trees, data.log_s - base - self.process.predict(data.x, self.seen)


def fit_kind(rows: Sequence[TableRow], device: str) -> KindModel:
    """The model of rows of one kind (`kind_of`), all of which were timed on `device`. They have at least FOLDS
    different dims."""
    first = rows[0]
    names = names_of(first)
    counts = Counter(row.variant for row in rows)
    variants = tuple(v for v, _ in counts.most_common(MOST_VARIANTS))
    rng = np.random.default_rng(0)
    drawn_rows = rows if len(rows) <= MOST else [rows[i] for i in np.sort(rng.permutation(len(rows))[:MOST])]
    drawn, features = _data(drawn_rows, device, names, variants)
    with_process = len(rows) <= PROCESS_ROWS
    left_out = [_fit(drawn.take(t), with_process).residuals(drawn.take(h)) for t, h in _splits(drawn, rng)]
    by_trees = np.concatenate([t for t, _ in left_out])
    candidates = {"trees": by_trees}
    if with_process:
        by_process = np.concatenate([p for _, p in left_out if p is not None])
        candidates |= {"process": by_process, "both": (by_trees + by_process) / 2}
    best = min(candidates, key=lambda name: _median_error(candidates[name]))
    fitted = _fit(drawn, with_process and best != "trees")
    return KindModel(
        source=first.source, operator=first.operator, dtype=first.dtype, direction=first.direction, names=names,
        variants=variants, features=features, rows=len(rows), floor=fitted.floor,
        trees=fitted.trees if best != "process" else None, process=fitted.process,
        held_out=held_out(candidates[best]),
    )  # fmt: skip


def held_out(residuals: np.ndarray) -> HeldOut:
    """From ln(measured ÷ predicted) of left-out rows; shape (n,)."""
    off = np.abs(np.exp(-residuals) - 1.0)
    low_80, high_80 = _bounds(residuals, 0.8)
    low_95, high_95 = _bounds(residuals, 0.95)
    return HeldOut(
        rows=len(residuals), median_error=float(np.median(off)), p90_error=float(np.quantile(off, 0.9)),
        low_80=low_80, high_80=high_80, low_95=low_95, high_95=high_95,
    )  # fmt: skip


def _bounds(residuals: np.ndarray, share: float) -> tuple[float, float]:
    """Conformal: the k-th smallest and largest residual with k = (n + 1)(1 − share) / 2, rounded down."""
    ordered_residuals = np.sort(residuals)
    k = max(math.floor((len(residuals) + 1) * (1.0 - share) / 2.0), 1)
    return float(ordered_residuals[k - 1]), float(ordered_residuals[-k])


def _median_error(residuals: np.ndarray) -> float:
    return float(np.median(np.abs(np.exp(-residuals) - 1.0)))


def _data(
    rows: Sequence[TableRow], device: str, names: Sequence[str], variants: Sequence[str]
) -> tuple[_Data, tuple[str, ...]]:
    """The rows' features, without those that are the same for all."""
    chip = chip_of(device)
    places = [variants.index(r.variant) if r.variant in variants else 0 for r in rows]
    works = [described(r.operator, r.dtype, dict(r.dims), r.variant, r.direction, chip) for r in rows]
    all_names = tuple(works[0].features)
    x = matrix(works, all_names, places, 1)
    features = tuple(name for name, column in zip(all_names, x.T, strict=True) if np.ptp(column) > 0)
    dims = [ordered(r.dims, names) or () for r in rows]
    numbers = {d: i for i, d in enumerate(dict.fromkeys(dims))}
    return _Data(
        x=matrix(works, features, places, len(variants)),
        flops=np.array([w.flops for w in works]),
        nbytes=np.array([w.nbytes for w in works]),
        log_s=np.log([r.time_s[device] for r in rows]),
        groups=np.array([numbers[d] for d in dims]),
        dims=dims,
        variants=places,
    ), features


def _splits(data: _Data, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of places: fitted and left out. Equal dims are on one side."""
    part = rng.permutation(int(data.groups.max()) + 1)[data.groups] % FOLDS
    folds = range(1 if len(data.groups) > ONE_SPLIT else FOLDS)
    pairs = [(np.flatnonzero(part != f), np.flatnonzero(part == f)) for f in folds]
    return [(fitted, left) for fitted, left in pairs if len(left) and len(fitted) >= 2]


def _fit(data: _Data, with_process: bool) -> _Fitted:
    floor = fit_floor(data.flops, data.nbytes, np.exp(data.log_s))
    rest = data.log_s - np.log(floor.seconds(data.flops, data.nbytes))
    return _Fitted(floor, fit_trees(data.x, rest), _fit_process(data, rest) if with_process else None, data.x)


def fit_floor(flops: np.ndarray, nbytes: np.ndarray, time_s: np.ndarray) -> Floor:
    """The floor that is nearest to the times, in logarithms and without regard to outliers; shapes (n,)."""
    from scipy.optimize import least_squares

    def rate(work: np.ndarray) -> float:
        reached = (work / time_s)[work > 0]
        return math.log(float(np.quantile(reached, 0.9))) if len(reached) else 0.0

    start = np.array([math.log(float(np.quantile(time_s, 0.02))), rate(flops), rate(nbytes)])

    def off(p: np.ndarray) -> np.ndarray:
        floor = np.exp(p[0]) + np.hypot(flops * np.exp(-p[1]), nbytes * np.exp(-p[2]))
        return np.asarray(np.log(time_s) - np.log(floor))

    found = least_squares(off, start, loss="soft_l1", bounds=(start - 6.0, start + 6.0), max_nfev=60)
    latency, peak, bandwidth = (float(np.clip(np.exp(p), 1e-12, 1e18)) for p in found.x)
    return Floor(latency_s=latency, flops_per_s=peak, bytes_per_s=bandwidth)


def fit_trees(x: np.ndarray, y: np.ndarray) -> Trees:
    """Gradient boosting (scikit-learn's, with histograms) as plain arrays; shapes (n, d) and (n,)."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    n = len(y)
    regressor = HistGradientBoostingRegressor(
        max_iter=int(np.clip(n // 8, 60, 300)), learning_rate=0.1, max_leaf_nodes=16 if n > 400 else 8,
        min_samples_leaf=int(np.clip(n // 60, 3, 12)), l2_regularization=0.1, early_stopping=False, random_state=0,
    ).fit(x, y)  # fmt: skip
    nodes = [predictors[0].nodes for predictors in regressor._predictors]
    return _as_arrays(nodes, x.shape[1], float(np.ravel(regressor._baseline_prediction)[0]))


def _as_arrays(trees: Sequence[Any], features: int, base: float) -> Trees:
    """scikit-learn's nodes, in preorder."""
    used: list[set[float]] = [set() for _ in range(features)]
    for nodes in trees:
        for node in nodes:
            if not node["is_leaf"]:
                used[int(node["feature_idx"])].add(round(float(node["num_threshold"]), 5))
    thresholds = [sorted(values) for values in used]
    places = [{value: i for i, value in enumerate(values)} for values in thresholds]
    feature: list[int] = []
    value: list[int] = []
    for nodes in trees:
        waiting = [0]
        while waiting:
            node = nodes[waiting.pop()]
            if node["is_leaf"]:
                feature.append(LEAF)
                value.append(round(float(node["value"]) / STEP))
            else:
                at = int(node["feature_idx"])
                feature.append(at)
                value.append(places[at][round(float(node["num_threshold"]), 5)])
                waiting += [int(node["right"]), int(node["left"])]
    return Trees(thresholds=tuple(map(tuple, thresholds)), feature=tuple(feature), value=tuple(value), base=base)


def _fit_process(data: _Data, rest: np.ndarray) -> Process:
    """The length and the noise with the least median error of each row predicted from all others."""
    mean, scale = data.x.mean(axis=0), np.maximum(data.x.std(axis=0), 1e-3)
    z, base = (data.x - mean) / scale, float(np.median(rest))
    best: tuple[float, float, np.ndarray] | None = None
    for length in LENGTHS:
        kernel = matern(z, z, length * math.sqrt(z.shape[1] / 10.0))
        values, vectors = np.linalg.eigh(kernel)
        turned = vectors.T @ (rest - base)
        for noise in NOISES:
            inverse = 1.0 / (np.maximum(values, 0.0) + noise)
            weights = vectors @ (inverse * turned)
            left_out = weights / np.maximum((vectors**2) @ inverse, 1e-12)
            error = float(np.median(np.abs(left_out)))
            if best is None or error < best[0]:
                best = (error, length * math.sqrt(z.shape[1] / 10.0), weights)
    assert best is not None
    return Process(
        dims=tuple(data.dims), variants=tuple(data.variants), weights=tuple(round(float(w), 7) for w in best[2]),
        mean=tuple(map(float, mean)), scale=tuple(map(float, scale)), length=best[1], base=base,
    )  # fmt: skip
