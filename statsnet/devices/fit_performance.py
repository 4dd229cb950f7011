"""Fits the model of performance_model.py to a table's times on one device, and checks it on rows that it has not seen.

Rows are left out by their dims: all variants of the same dims are left out together. Bounds follow from the errors of
left-out rows (split conformal prediction: Lei et al. 2018), so they hold for new rows of the same kind.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from statsnet.devices.hardware import chip_of
from statsnet.devices.operator_features import described
from statsnet.devices.performance_model import (
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
from statsnet.devices.tree_fit import Effort, fit_median_forest, fit_trees
from statsnet.progress import Progress, Report, silent

FEWEST = 12
"""Kinds with rows of fewer different dims have no model."""

MOST = 5_000
"""Of more rows, this many are drawn at random."""

GOOD = 0.06
"""A larger median error of left-out rows is worth the size and the time of a thorough fit."""

FOLDS = 5
FEW, FOLDS_OF_FEW = 200, 10
"""Four fifths of 80 rows tell too little of a fit to all."""

ONE_SPLIT = 1_200
"""With more rows, only one part in FOLDS is left out, once."""

ROUGH = 0.1
FOREST_FROM = 300
"""Kinds of so many rows whose median error stays above ROUGH have a forest, if that brings it below: a forest is large.
With fewer rows the better one of two would flatter itself."""

PROCESS_ROWS = 500
"""Up to so many rows, a Gaussian process is tried as well."""

LENGTHS = (2.0, 4.0, 8.0, 16.0)
NOISES = (1e-4, 1e-3, 1e-2, 5e-2)
POWERS = (0.0, 0.25, 0.5)
"""A Gaussian process weighs each feature by a power of what the trees gained by it, so that what decides nothing does
not count as distance."""

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


_Residuals = dict[str, np.ndarray]
"""ln(measured ÷ predicted) of rows by the way of predicting them; shape (n,)."""


@dataclass(frozen=True, slots=True)
class _Fitted:
    """One fit: the floor, and what is left over explained in one or two ways."""

    floor: Floor
    trees: Trees
    process: Process | None
    seen: np.ndarray
    """Features of the rows that it was fitted to."""

    def residuals(self, data: _Data) -> _Residuals:
        base = np.log(self.floor.seconds(data.flops, data.nbytes))
        by_trees = data.log_s - base - self.trees.predict(data.x)
        if self.process is None:
            return {"trees": by_trees}
        by_process = data.log_s - base - self.process.predict(data.x, self.seen)
        return {"trees": by_trees, "process": by_process, "both": (by_trees + by_process) / 2.0}


USUAL = Effort(MOST, "squared_error", 0.1, 300, 16)
THOROUGH = Effort(20_000, "absolute_error", 0.08, 600, 24)
"""Absolute errors: kinds that are hard to predict have many times that are two or three times their neighbours', and
the median does not follow these."""


def fit_kind(rows: Sequence[TableRow], device: str) -> KindModel:
    """The model of rows of one kind (`kind_of`), all of which were timed on `device`. They have several
    different dims."""
    model = _fit_kind(rows, device, USUAL)
    if model.held_out.median_error > GOOD and len(rows) > PROCESS_ROWS:
        model = _fit_kind(rows, device, THOROUGH)
    if model.held_out.median_error > ROUGH and len(rows) >= FOREST_FROM:
        forest = _fit_kind(rows, device, None)
        if forest.held_out.median_error <= ROUGH:
            model = forest
    return model


def _fit_kind(rows: Sequence[TableRow], device: str, effort: Effort | None) -> KindModel:
    """Without an effort: a forest."""
    first = rows[0]
    names = names_of(first)
    counts = Counter(row.variant for row in rows)
    variants = tuple(v for v, _ in counts.most_common(MOST_VARIANTS))
    rng = np.random.default_rng(0)
    drawn_rows = rows
    most = effort.rows if effort else MOST
    if len(rows) > most:
        drawn_rows = [rows[i] for i in np.sort(rng.permutation(len(rows))[:most])]
    drawn, features = _data(drawn_rows, device, names, variants)
    with_process = effort is not None and len(rows) <= PROCESS_ROWS
    folds = [_fit(drawn.take(t), with_process, effort).residuals(drawn.take(h)) for t, h in _splits(drawn, rng)]
    best = _best(folds)
    # Each fold is judged by the way that is best on the others: the way that is best on all would flatter itself.
    left_out = [fold[_best(folds[:i] + folds[i + 1 :] or folds)] for i, fold in enumerate(folds)]
    fitted = _fit(drawn, with_process and best != "trees", effort)
    return KindModel(
        source=first.source, operator=first.operator, dtype=first.dtype, direction=first.direction, names=names,
        variants=variants, features=features, rows=len(rows), floor=fitted.floor,
        trees=fitted.trees if best != "process" else None, process=fitted.process,
        held_out=held_out(np.concatenate(left_out)),
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
    """Conformal: the k-th smallest and largest residual with k = (n + 1)(1 − share) / 2, rounded down.
    Of fewer rows than that takes (LEAST_FOR_95), the smallest and the largest, which enclose a smaller share."""
    ordered_residuals = np.sort(residuals)
    k = max(math.floor((len(residuals) + 1) * (1.0 - share) / 2.0), 1)
    return float(ordered_residuals[k - 1]), float(ordered_residuals[-k])


def _best(folds: Sequence[_Residuals]) -> str:
    """The way with the least mean error, which scatters less than the median does."""
    return min(folds[0], key=lambda way: float(np.abs(np.concatenate([fold[way] for fold in folds])).mean()))


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
    rows = len(data.groups)
    folds = FOLDS_OF_FEW if rows < FEW else FOLDS
    part = rng.permutation(int(data.groups.max()) + 1)[data.groups] % folds
    tried = range(1 if rows > ONE_SPLIT else folds)
    pairs = [(np.flatnonzero(part != f), np.flatnonzero(part == f)) for f in tried]
    return [(fitted, left) for fitted, left in pairs if len(left) and len(fitted) >= 2]


def _fit(data: _Data, with_process: bool, effort: Effort | None) -> _Fitted:
    floor = fit_floor(data.flops, data.nbytes, np.exp(data.log_s))
    rest = data.log_s - np.log(floor.seconds(data.flops, data.nbytes))
    if effort is None:
        return _Fitted(floor, fit_median_forest(data.x, rest), None, data.x)
    trees, gains = fit_trees(data.x, rest, effort)
    return _Fitted(floor, trees, _fit_process(data, rest, gains) if with_process else None, data.x)


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


def _fit_process(data: _Data, rest: np.ndarray, gains: np.ndarray) -> Process:
    """The weighing of features, the length and the noise with the least mean error of each row predicted from all
    others."""
    mean, deviation, base = _short(data.x.mean(axis=0)), np.maximum(data.x.std(axis=0), 1e-3), float(np.median(rest))
    best: tuple[float, np.ndarray, float, np.ndarray] | None = None
    for power in POWERS:
        scale = _short(deviation / gains**power)
        z, wide = (data.x - mean) / scale, math.sqrt((gains ** (2.0 * power)).sum() / 10.0)
        for length in LENGTHS:
            values, vectors = np.linalg.eigh(matern(z, z, length * wide))
            turned = vectors.T @ (rest - base)
            for noise in NOISES:
                inverse = 1.0 / (np.maximum(values, 0.0) + noise)
                weights = vectors @ (inverse * turned)
                left_out = weights / np.maximum((vectors**2) @ inverse, 1e-12)
                error = float(np.abs(left_out).mean())
                if best is None or error < best[0]:
                    best = (error, scale, length * wide, weights)
    assert best is not None
    _, scale, length, weights = best
    kept, z = _short(weights), (data.x - mean) / scale
    lost = float((matern(z, z, length) @ (weights - kept)).mean())
    return Process(
        dims=tuple(data.dims), variants=tuple(data.variants), weights=tuple(map(float, kept)),
        mean=tuple(map(float, mean)), scale=tuple(map(float, scale)), length=length, base=base + lost,
    )  # fmt: skip


def _short(values: np.ndarray) -> np.ndarray:
    """With as many digits as a file keeps, so that what is read predicts as what was fitted."""
    return np.array([float(f"{value:.6g}") for value in values.tolist()])
