"""How much a signature tells: `full`, `statistical`, `coarse`. A file can be made to tell less, never more.

full         every cluster with its exact sizes, and motifs
statistical  exact sizes; no order but that within motifs; rare clusters folded into others
coarse       sizes and counts in half octaves; clusters of small shares merged; motifs that occur once dropped; times
             with two digits
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields, replace
from statistics import median
from typing import Any, get_args

from statsnet.errors import UsageError
from statsnet.signatures.gpu import GpuActivity
from statsnet.signatures.merging import merge
from statsnet.signatures.model import Cluster, Level, Measurement, Memory, Motif, Signature, Skew
from statsnet.signatures.order import in_canonical_order
from statsnet.signatures.rounding import binned_argument, binned_count, half_octave, rounded, without_order

LEVELS: tuple[Level, ...] = get_args(Level)
"""From the one that tells most."""

DEFAULT_LEVEL: Level = "statistical"

RARE = {"full": 0.0, "statistical": 0.002, "coarse": 0.01}
"""Clusters below this share of a step's FLOPs, bytes and time are folded into another one of their operator."""

FEWEST_IN_A_MOTIF = 2
"""In a coarse signature, a motif that occurs less often in a step is not told."""


def finest(levels: Sequence[Level]) -> Level:
    """The level of the one that tells most; `full` for none."""
    return min(levels, key=LEVELS.index, default="full")


def coarsen(signature: Signature, level: Level) -> Signature:
    """The signature at a level. Raises UsageError for a level that tells more than the signature's."""
    if LEVELS.index(level) < LEVELS.index(signature.level):
        raise UsageError(
            f"a signature of level '{signature.level}' can not become '{level}'",
            cause="what was left out is in no file",
            hint="profile the workload again with --level " + level,
        )
    if level == signature.level:
        return signature
    told = replace(signature, level=level, clusters=tuple(map(_without_order, signature.clusters)))
    if level == "coarse":
        told = replace(told, clusters=tuple(map(_binned_sizes, told.clusters)))
    told = merge(told, _folded(told, RARE[level]))
    return in_canonical_order(_binned_totals(_without_lone_motifs(told)) if level == "coarse" else told)


def _without_order(cluster: Cluster) -> Cluster:
    args, outputs = (tuple(map(without_order, values)) for values in (cluster.args, cluster.outputs))
    return replace(cluster, args=args, outputs=outputs)


def _folded(signature: Signature, share: float) -> list[list[int]]:
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
        for i in ranked:
            cluster = signature.clusters[i]
            same = leaders.get(_identity(cluster))
            if same is not None:
                same.append(i)
            elif leaders and work[i] < share:
                nearest = min(leaders.values(), key=lambda g: _distance(signature.clusters[g[0]], cluster))
                nearest.append(i)
            else:
                leaders[_identity(cluster)] = [i]
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


def _distance(a: Cluster, b: Cluster) -> float:
    return abs(_size(a) - _size(b))


def _without_lone_motifs(signature: Signature) -> Signature:
    """Motifs that occur once in a step become their clusters, each alone."""
    counts: dict[tuple[int, ...], float] = defaultdict(float)
    for motif in signature.motifs:
        parts = [motif.clusters] if motif.count >= FEWEST_IN_A_MOTIF else [(i,) for i in motif.clusters]
        for part in parts:
            counts[part] += motif.count
    motifs = tuple(Motif(clusters=clusters, count=binned_count(count)) for clusters, count in counts.items())
    return replace(signature, motifs=motifs)


def _binned_sizes(cluster: Cluster) -> Cluster:
    args, outputs = (tuple(map(binned_argument, values)) for values in (cluster.args, cluster.outputs))
    return replace(
        cluster, args=args, outputs=outputs, skew=None if cluster.skew is None else _binned_skew(cluster.skew)
    )


def _binned_totals(signature: Signature) -> Signature:
    """Counts and sizes of memory in half octaves, times with two digits."""
    sizes = {f.name: getattr(signature.memory, f.name) for f in fields(Memory)}
    return replace(
        signature,
        clusters=tuple(map(_binned_counts, signature.clusters)),
        memory=Memory(**{name: None if size is None else half_octave(size) for name, size in sizes.items()}),
        batch=None if signature.batch is None else half_octave(signature.batch),
        shape_variants=half_octave(signature.shape_variants),
        measurements=tuple(map(_binned_times, signature.measurements)),
    )


def _binned_skew(skew: Skew) -> Skew:
    return Skew(
        distinct_share=rounded(skew.distinct_share, 1),
        top1pct_share=rounded(skew.top1pct_share, 1),
        zipf=round(skew.zipf, 1),
    )


def _binned_counts(cluster: Cluster) -> Cluster:
    def binned(value: float | None) -> float | None:
        return None if value is None else half_octave(round(value))

    return replace(
        cluster,
        calls=binned_count(cluster.calls),
        flops=binned(cluster.flops),
        bytes_read=binned(cluster.bytes_read),
        bytes_written=binned(cluster.bytes_written),
    )


def _binned_times(measurement: Measurement) -> Measurement:
    def two(value: float | None) -> float | None:
        return None if value is None else rounded(value)

    steps = measurement.step_latency_s
    return replace(
        measurement,
        step_latency_s=(rounded(median(steps)),) * min(len(steps), 3) if steps else (),
        warmup_latency_s=(),
        profiled_latency_s=(),
        cluster_time_s=tuple(map(two, measurement.cluster_time_s)),
        launches=rounded(measurement.launches),
        framework_time_s=two(measurement.framework_time_s),
        idle_time_s=two(measurement.idle_time_s),
        unexplained_share=two(measurement.unexplained_share),
        coefficient_of_variation=two(measurement.coefficient_of_variation),
        gpu=None if measurement.gpu is None else _binned_gpu(measurement.gpu),
    )


def _binned_gpu(gpu: GpuActivity) -> GpuActivity:
    kernels = (
        replace(k, grid=None, block=None, launches=binned_count(k.launches), time_s=rounded(k.time_s))
        for k in gpu.kernels
    )
    clusters = {
        name: tuple(None if v is None else rounded(v) for v in values) for name, values in gpu.counters.clusters.items()
    }
    energy = gpu.power.energy_j_per_step
    return replace(
        gpu,
        busy_time_s=rounded(gpu.busy_time_s),
        kernels=tuple(kernels),
        duration_log2_us=tuple((b, rounded(n)) for b, n in gpu.duration_log2_us),
        gap_log2_us=tuple((b, rounded(n)) for b, n in gpu.gap_log2_us),
        power=replace(gpu.power, energy_j_per_step=None if energy is None else rounded(energy)),
        counters=replace(gpu.counters, clusters=clusters),
    )
