"""Clusters of a signature merged into groups: what a step does in all stays, what told the members apart goes."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from statsnet.signatures.gpu import SUM_COUNTERS, Counters, GpuActivity, GpuKernel
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Cluster, Motif, Signature, round_autocast_share

Groups = Sequence[Sequence[int]]
"""Indices of clusters, each in one group at most; the first of a group stands for all of it."""


def merge(signature: Signature, groups: Groups) -> Signature:
    """One cluster for each group. Calls, FLOPs, bytes, times and launches of a step stay what they were. Clusters in no
    group are left out, with their motifs and kernels."""
    place = {old: new for new, group in enumerate(groups) for old in group}
    motifs: dict[tuple[int, ...], float] = defaultdict(float)
    for motif in signature.motifs:
        if place.keys() >= {*motif.clusters}:
            motifs[tuple(place[i] for i in motif.clusters)] += motif.count
    return replace(
        signature,
        clusters=tuple(_merged([signature.clusters[i] for i in group]) for group in groups),
        motifs=tuple(Motif(clusters=clusters, count=count) for clusters, count in motifs.items()),
        measurements=tuple(_merged_measurement(m, groups, place) for m in signature.measurements),
    )


def _merged(clusters: Sequence[Cluster]) -> Cluster:
    calls = math.fsum(c.calls for c in clusters)

    def per_call(of: Callable[[Cluster], float | None]) -> float | None:
        values = [(c.calls, of(c)) for c in clusters]
        if len({value for _, value in values}) == 1:
            return values[0][1]
        known = [n * value for n, value in values if value is not None]
        return math.fsum(known) / calls if len(known) == len(values) else None

    if len(clusters) == 1:
        return clusters[0]
    return replace(
        clusters[0],
        calls=calls,
        flops=per_call(lambda c: c.flops),
        bytes_read=per_call(lambda c: c.bytes_read),
        bytes_written=per_call(lambda c: c.bytes_written),
        autocast_share=_mean_autocast_share(clusters),
    )


def _mean_autocast_share(clusters: Sequence[Cluster]) -> float | None:
    """Over the calls of those that know it."""
    known = [(c.calls, c.autocast_share) for c in clusters if c.autocast_share is not None]
    if not known:
        return None
    mean = math.fsum(calls * share for calls, share in known) / math.fsum(calls for calls, _ in known)
    return round_autocast_share(mean, "full")


def _merged_measurement(measurement: Measurement, groups: Groups, place: dict[int, int]) -> Measurement:
    times = measurement.cluster_time_s
    return replace(
        measurement,
        cluster_time_s=tuple(sum_of_known([times[i] for i in group]) for group in groups),
        kernels=tuple(measurement.kernels[group[0]] for group in groups),
        kernel_class=tuple(measurement.kernel_class[group[0]] for group in groups),
        gpu=None if measurement.gpu is None else _merged_gpu(measurement.gpu, times, groups, place),
        collectives=measurement.collectives and measurement.collectives.moved(place),
    )


def sum_of_known(values: Sequence[float | None]) -> float | None:
    """None if none is known."""
    known = [v for v in values if v is not None]
    return math.fsum(known) if known else None


def _merged_gpu(gpu: GpuActivity, times: Sequence[float | None], groups: Groups, place: dict[int, int]) -> GpuActivity:
    kernels: dict[tuple[object, ...], GpuKernel] = {}
    for kernel in gpu.kernels:
        if kernel.cluster is not None and kernel.cluster not in place:
            continue
        moved = replace(kernel, cluster=None if kernel.cluster is None else place[kernel.cluster])
        key = (moved.cluster, moved.family, moved.grid, moved.block)
        known = kernels.get(key)
        kernels[key] = moved if known is None else replace(
            known, launches=known.launches + moved.launches, time_s=known.time_s + moved.time_s
        )  # fmt: skip
    values = {
        name: tuple(_counter(name, [(times[i], row[i]) for i in group]) for group in groups)
        for name, row in gpu.counters.clusters.items()
    }
    counters = Counters(tool=gpu.counters.tool, clusters=values, missing=gpu.counters.missing)
    return replace(gpu, kernels=tuple(kernels.values()), counters=counters)


def _counter(name: str, rows: Sequence[tuple[float | None, float | None]]) -> float | None:
    """Sums are added up, all else is averaged over time."""
    if len(rows) == 1:
        return rows[0][1]
    if name in SUM_COUNTERS:
        return sum_of_known([value for _, value in rows])
    known = [(time_s or 0.0, value) for time_s, value in rows if value is not None]
    if not known:
        return None
    total = math.fsum(time_s for time_s, _ in known)
    if not total:
        return math.fsum(value for _, value in known) / len(known)
    return math.fsum(time_s * value for time_s, value in known) / total


def folded(signature: Signature, share: float) -> list[list[int]]:
    """Equal clusters together, and each rare one with the nearest of its operator, phase and kernel classes."""
    work = _shares(signature)
    kinds: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for i, cluster in enumerate(signature.clusters):
        classes = tuple(m.kernel_class[i] for m in signature.measurements)
        kinds[cluster.op, cluster.phase, cluster.flops is None, classes].append(i)
    groups: list[list[int]] = []
    for kind in kinds.values():
        ranked = sorted(kind, key=lambda i: (-work[i], _size(signature.clusters[i]), i))
        leaders: dict[str, list[int]] = {}
        by_size = _BySize()
        for i in ranked:
            cluster = signature.clusters[i]
            same = leaders.get(_identity(cluster))
            if same is not None:
                same.append(i)
            elif leaders and work[i] < share:
                by_size.nearest(_size(cluster)).append(i)
            else:
                leaders[_identity(cluster)] = [i]
                by_size.add(_size(cluster), leaders[_identity(cluster)])
        groups += leaders.values()
    return groups


def _identity(cluster: Cluster) -> str:
    return repr((cluster.args, cluster.outputs, cluster.skew))


def _shares(signature: Signature) -> list[float]:
    """Each cluster's largest share: of FLOPs, of bytes, and of each measurement's time."""
    columns = [
        [c.calls * (c.flops or 0.0) for c in signature.clusters],
        [c.calls * (c.bytes_moved or 0.0) for c in signature.clusters],
        *([t or 0.0 for t in m.cluster_time_s] for m in signature.measurements),
    ]
    totals = [math.fsum(column) or 1.0 for column in columns]
    return [max(c[i] / t for c, t in zip(columns, totals, strict=True)) for i in range(len(signature.clusters))]


def _size(cluster: Cluster) -> float:
    return math.log2(1 + (cluster.bytes_moved or 0.0))


class _BySize:
    """Groups by the size of their first cluster. The nearest one is found without a look at all: a stranger's file may
    have twenty thousand."""

    def __init__(self) -> None:
        self._sizes: list[float] = []
        self._groups: dict[float, tuple[int, list[int]]] = {}

    def add(self, size: float, group: list[int]) -> None:
        """Of several groups of one size the first counts."""
        if size not in self._groups:
            insort(self._sizes, size)
            self._groups[size] = (len(self._groups), group)

    def nearest(self, size: float) -> list[int]:
        """Of two that are equally near, the first that was added."""
        at = bisect_left(self._sizes, size)
        beside = self._sizes[max(0, at - 1) : at + 1]
        return self._groups[min(beside, key=lambda known: (abs(known - size), self._groups[known][0]))][1]
