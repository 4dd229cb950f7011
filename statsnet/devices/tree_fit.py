"""Boosted regression trees, grown by scikit-learn and kept as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from statsnet.devices.performance_model import LEAF, STEP, Trees

LEAST_GAIN = 1e-4
"""Of a feature that decides nothing, as a share of the largest gain."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How many rows are used at most, and how trees are grown: `trees` and `leaves` (of each) at most."""

    rows: int
    loss: str
    rate: float
    trees: int
    leaves: int


def fit_trees(x: np.ndarray, y: np.ndarray, effort: Effort) -> tuple[Trees, np.ndarray]:
    """Gradient boosting (scikit-learn's, with histograms) as plain arrays, and each feature's gain as a share of the
    largest one, at least LEAST_GAIN; shapes (n, d) and (n,), (d,)."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    n = len(y)
    regressor = HistGradientBoostingRegressor(
        loss=effort.loss, learning_rate=effort.rate, max_iter=int(np.clip(n // 8, 60, effort.trees)),
        max_leaf_nodes=effort.leaves if n > 400 else 8,
        min_samples_leaf=int(np.clip(n // 60, 3, 12)), l2_regularization=0.1, early_stopping=False, random_state=0,
    ).fit(x, y)  # fmt: skip
    nodes = [predictors[0].nodes for predictors in regressor._predictors]
    inner = np.concatenate([tree[tree["is_leaf"] == 0] for tree in nodes])
    gains = np.bincount(inner["feature_idx"], inner["gain"], x.shape[1])
    trees = _as_arrays(nodes, x.shape[1], float(np.ravel(regressor._baseline_prediction)[0]))
    return trees, np.maximum(gains / max(gains.max(initial=0.0), 1e-12), LEAST_GAIN)


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
