"""One order of clusters for all signatures: that in which operators first ran is the list of a network's layers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from statsnet.signatures.measurement import Measurement
from statsnet.signatures.merging import merge
from statsnet.signatures.model import Cluster, Signature


def canonical_order(clusters: Sequence[Cluster]) -> list[int]:
    """The clusters' indices, sorted by what the clusters are."""
    keys = [_key(cluster) for cluster in clusters]
    return sorted(range(len(clusters)), key=keys.__getitem__)


def in_canonical_order(signature: Signature) -> Signature:
    """The same signature with its clusters, motifs and kernels sorted."""
    moved = merge(signature, [[i] for i in canonical_order(signature.clusters)])
    return replace(
        moved,
        motifs=tuple(sorted(moved.motifs, key=lambda m: (m.clusters, m.count))),
        measurements=tuple(map(_with_sorted_kernels, moved.measurements)),
    )


def _with_sorted_kernels(measurement: Measurement) -> Measurement:
    gpu = measurement.gpu
    if gpu is None:
        return measurement
    kernels = sorted(
        gpu.kernels, key=lambda k: (k.cluster is None, k.cluster or 0, k.family, k.grid or (), k.block or ())
    )
    return replace(measurement, gpu=replace(gpu, kernels=tuple(kernels)))


def _key(cluster: Cluster) -> tuple[Any, ...]:
    arguments = json.dumps([cluster.args, cluster.outputs], sort_keys=True)
    return cluster.category, cluster.op, cluster.phase, arguments, cluster.calls, str(cluster.skew)
