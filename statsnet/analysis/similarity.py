"""How alike workloads are, by where their time goes, and a subset that represents them all.

A workload is a point: the square roots of its shares of operator time by kernel class, and by intensity. The Euclidean
distance of two points is, up to a factor, the Hellinger distance of their distributions: 0 for equal ones, √2 at most,
if they have nothing in common. Both halves count alike. Clusters are hierarchical (Ward); their number is the one
with the best silhouette (Rousseeuw 1987). The workload nearest to a cluster's centre represents the cluster, with the
whole cluster's weight. AIBench chose its subset in this way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from statsnet.analysis.database import NamedSignature
from statsnet.errors import UsageError
from statsnet.signatures.model import Signature
from statsnet.signatures.statistics import shares, total_variation
from statsnet.signatures.target import Target, target_of

FEWEST = 3
"""Fewer workloads than this cannot be grouped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Names of its workloads, and the one that stands for them."""

    members: tuple[str, ...]
    representative: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Similarity:
    """`points` and `places` (a t-SNE's, in the plane) are in the order of `names`; `tree` is scipy's linkage matrix.

    `cost` is the subset's step time over that of all; `missed` is the total variation between the subset's weighted
    shares and those of all, by category and by kernel class.
    """

    names: tuple[str, ...]
    points: np.ndarray
    tree: np.ndarray
    places: np.ndarray
    clusters: tuple[Cluster, ...]
    silhouette: float
    cost: float
    missed: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        return {
            "workloads": [
                {"name": name, "place": [float(x) for x in place]}
                for name, place in zip(self.names, self.places, strict=True)
            ],
            "clusters": [{"members": list(c.members), "representative": c.representative} for c in self.clusters],
            "silhouette": self.silhouette,
            "subset_cost": self.cost,
            "subset_total_variation": dict(self.missed),
        }


def similarity(measured: Sequence[NamedSignature], *, clusters: int | None = None, seed: int = 0) -> Similarity:
    """Group measured signatures; by default into the number of clusters with the best silhouette.

    Raises UsageError for fewer than FEWEST signatures, or a number of clusters that they do not allow.
    """
    if len(measured) < FEWEST:
        raise UsageError(
            f"{len(measured)} workloads cannot be grouped",
            cause=f"{FEWEST} are the fewest",
            hint="give a wider pattern",
        )
    if clusters is not None and not 2 <= clusters < len(measured):
        raise UsageError(
            f"{len(measured)} workloads cannot be put into {clusters} clusters",
            hint=f"give a number from 2 to {len(measured) - 1}",
        )
    signatures = [named.signature for named in measured]
    names = tuple(named.name for named in measured)
    targets = [target_of(s, name=name) for s, name in zip(signatures, names, strict=True)]
    points = positions(targets)
    tree = linkage(points, "ward")
    labels, quality = _grouped(points, tree, clusters)
    chosen = representatives(points, labels)
    return Similarity(
        names=names,
        points=points,
        tree=tree,
        places=_in_the_plane(points, seed),
        clusters=tuple(
            Cluster(members=tuple(names[j] for j in np.flatnonzero(labels == labels[i])), representative=names[i])
            for i in chosen
        ),
        silhouette=quality,
        cost=sum(_latency_s(signatures[i]) for i in chosen) / sum(map(_latency_s, signatures)),
        missed=_missed(targets, chosen),
    )


Key = TypeVar("Key", str, int)


def positions(targets: Sequence[Target]) -> np.ndarray:
    """Workloads × features, as the module's docstring defines them."""
    kernels, intensities = [t.kernel_class_shares for t in targets], [t.intensity_histogram for t in targets]
    halves = [np.sqrt(_table(kernels)), np.sqrt(_table(intensities))]
    scaled: np.ndarray = np.concatenate(halves, axis=1) / np.sqrt(2.0)
    return scaled


def _table(distributions: Sequence[Mapping[Key, float]]) -> list[list[float]]:
    """A row for each distribution, a column for each key that any of them has."""
    keys = sorted({key for d in distributions for key in d})
    return [[d.get(key, 0.0) for key in keys] for d in distributions]


def representatives(points: np.ndarray, labels: np.ndarray, weights: Sequence[float] | None = None) -> dict[int, float]:
    """The point nearest to each cluster's centre -> the cluster's weight. By default all points weigh the same."""
    shares = np.full(len(points), 1.0 / len(points)) if weights is None else np.asarray(weights)
    chosen: dict[int, float] = {}
    for label in np.unique(labels):
        inside = np.flatnonzero(labels == label)
        away = np.linalg.norm(points[inside] - points[inside].mean(axis=0), axis=1)
        chosen[int(inside[np.argmin(away)])] = float(shares[inside].sum())
    return chosen


def _grouped(points: np.ndarray, tree: np.ndarray, clusters: int | None) -> tuple[np.ndarray, float]:
    """Labels of the clusters, and their silhouette."""
    from sklearn.metrics import silhouette_score

    numbers = range(2, len(points)) if clusters is None else (clusters,)
    groupings: list[tuple[float, int, np.ndarray]] = []
    for number in numbers:
        labels = fcluster(tree, number, "maxclust")
        if 2 <= len(set(labels)) < len(points):
            groupings.append((float(silhouette_score(points, labels)), -number, labels))
    if not groupings:  # all alike
        return np.ones(len(points), dtype=int), 0.0
    quality, _, labels = max(groupings, key=lambda f: f[:2])
    return labels, quality


def _in_the_plane(points: np.ndarray, seed: int) -> np.ndarray:
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(points) - 1) / 3)
    places: np.ndarray = TSNE(perplexity=perplexity, init="random", random_state=seed).fit_transform(points)
    return places


def _latency_s(signature: Signature) -> float:
    return signature.measurements[0].latency_s


def _missed(targets: Sequence[Target], chosen: Mapping[int, float]) -> dict[str, float]:
    """Total variation between all workloads in equal shares and the subset with its weights."""
    distances = {}
    for what in ("category", "kernel_class"):
        every = [getattr(t, f"{what}_shares") for t in targets]
        whole = shares((name, share) for one in every for name, share in one.items())
        subset = shares((name, w * share) for i, w in chosen.items() for name, share in every[i].items())
        distances[what] = total_variation(whole, subset)
    return distances
