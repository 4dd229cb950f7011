"""Regression trees, grown by scikit-learn and kept as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from statsnet.devices.performance_model import LEAF, STEP, Trees

LEAST_GAIN = 1e-4
"""Of a feature that decides nothing, as a share of the largest gain."""

FOREST_ROWS = 120
FOREST = 30
"""Fewer rows than these have a forest of so many extremely randomised trees (Geurts, Ernst and Wehenkel 2006)."""

MEDIAN_FOREST = 15
"""So many have the forests whose median counts."""

NODE = np.dtype([("is_leaf", bool), ("feature_idx", int), ("num_threshold", float), ("value", float), ("left", int),
                 ("right", int)])  # fmt: skip
"""What is looked at of scikit-learn's nodes of boosted trees."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How many rows are used at most, and how trees are boosted: `trees` and `leaves` (of each) at most."""

    rows: int
    loss: str
    rate: float
    trees: int
    leaves: int


def fit_trees(x: np.ndarray, y: np.ndarray, effort: Effort) -> tuple[Trees, np.ndarray]:
    """Gradient boosting (scikit-learn's, with histograms), or a forest where there are few rows, as plain arrays; and
    each feature's gain by boosting as a share of the largest one, at least LEAST_GAIN. Shapes (n, d) and (n,), (d,)."""
    from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

    n = len(y)
    regressor = HistGradientBoostingRegressor(
        loss=effort.loss, learning_rate=effort.rate, max_iter=int(np.clip(n // 8, 60, effort.trees)),
        max_leaf_nodes=effort.leaves if n > 400 else 8,
        min_samples_leaf=int(np.clip(n // 60, 3, 12)), l2_regularization=0.1, early_stopping=False, random_state=0,
    ).fit(x, y)  # fmt: skip
    nodes = [predictors[0].nodes for predictors in regressor._predictors]
    inner = np.concatenate([tree[tree["is_leaf"] == 0] for tree in nodes])
    gains = np.bincount(inner["feature_idx"], inner["gain"], x.shape[1])
    base = float(np.ravel(regressor._baseline_prediction)[0])
    trees = _as_arrays(nodes, x.shape[1], base)
    if n < FOREST_ROWS:
        forest = ExtraTreesRegressor(FOREST, max_features=0.5, random_state=0).fit(x, y)
        trees = _as_arrays(_nodes_of(forest, 1.0 / FOREST), x.shape[1], 0.0)
    return trees, np.maximum(gains / max(gains.max(initial=0.0), 1e-12), LEAST_GAIN)


def fit_median_forest(x: np.ndarray, y: np.ndarray) -> Trees:
    """Extremely randomised trees whose median counts: where like operators have one of two times, as at two clocks, it
    is the more frequent one, and a mean would lie between. Shapes (n, d) and (n,)."""
    from sklearn.ensemble import ExtraTreesRegressor

    forest = ExtraTreesRegressor(MEDIAN_FOREST, min_samples_leaf=2, random_state=0).fit(x, y)
    return replace(_as_arrays(_nodes_of(forest, 1.0), x.shape[1], 0.0), middle=True)


def _nodes_of(forest: Any, weight: float) -> list[np.ndarray]:
    """The nodes of each tree, their values times a weight."""
    trees = []
    for estimator in forest.estimators_:
        tree = estimator.tree_
        nodes = np.zeros(tree.node_count, NODE)
        nodes["left"], nodes["right"] = tree.children_left, tree.children_right
        nodes["is_leaf"] = tree.children_left < 0
        nodes["feature_idx"], nodes["num_threshold"] = tree.feature, tree.threshold
        nodes["value"] = tree.value[:, 0, 0] * weight
        trees.append(nodes)
    return trees


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
