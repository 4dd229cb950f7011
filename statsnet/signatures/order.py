"""One order of clusters for all signatures: that in which operators first ran is the list of a network's layers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Cluster, Motif, Signature

T = TypeVar("T")


def canonical_order(clusters: Sequence[Cluster]) -> list[int]:
    """The clusters' indices, sorted by what the clusters are."""
    keys = [_key(cluster) for cluster in clusters]
    return sorted(range(len(clusters)), key=keys.__getitem__)


def in_canonical_order(signature: Signature) -> Signature:
    """The same signature with its clusters, motifs and kernels sorted."""
    order = canonical_order(signature.clusters)
    place = {old: new for new, old in enumerate(order)}
    motifs = [Motif(clusters=tuple(place[i] for i in m.clusters), count=m.count) for m in signature.motifs]
    return replace(
        signature,
        clusters=tuple(signature.clusters[i] for i in order),
        motifs=tuple(sorted(motifs, key=lambda m: (m.clusters, m.count))),
        measurements=tuple(_reordered(m, order, place) for m in signature.measurements),
    )


def _key(cluster: Cluster) -> tuple[Any, ...]:
    arguments = json.dumps([cluster.args, cluster.outputs], sort_keys=True)
    return cluster.category, cluster.op, cluster.phase, arguments, cluster.calls, str(cluster.skew)


def _reordered(measurement: Measurement, order: Sequence[int], place: dict[int, int]) -> Measurement:
    def sort(values: Sequence[T]) -> tuple[T, ...]:
        return tuple(values[i] for i in order)

    gpu = measurement.gpu
    if gpu is not None:
        kernels = [replace(k, cluster=None if k.cluster is None else place[k.cluster]) for k in gpu.kernels]
        kernels.sort(key=lambda k: (k.cluster is None, k.cluster or 0, k.family, k.grid or (), k.block or ()))
        counters = {name: sort(values) for name, values in gpu.counters.clusters.items()}
        gpu = replace(gpu, kernels=tuple(kernels), counters=replace(gpu.counters, clusters=counters))
    return replace(
        measurement,
        cluster_time_s=sort(measurement.cluster_time_s),
        kernels=sort(measurement.kernels),
        kernel_class=sort(measurement.kernel_class),
        gpu=gpu,
        collectives=measurement.collectives and measurement.collectives.moved(place),
    )
