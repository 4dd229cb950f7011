"""One cluster of operators per second of a target, and the counters of many."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from statsnet.signatures.gpu import COUNTERS, SUM_COUNTERS
from statsnet.signatures.kernel_class import class_now
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Cluster, Skew
from statsnet.signatures.statistics import intensity_bin

UNKNOWN_KERNEL_CLASS = "unknown"

COUNTED = 0.9
"""A target's counter counts as known if it is known for this share of its operators' time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetCluster:
    """One cluster of one member, per second of the target; arguments are encoded as in signatures/operators.py.

    `cluster` is its index in the member's signature. A cluster that was not timed has a `time_share` of 0. Rates
    without a formula are None. `counters` holds its known GPU counters (for SUM_COUNTERS, the sum per second).
    `autocast_share`: see Cluster.
    """

    member: str
    cluster: int
    op: str
    phase: str
    category: str
    kernel_class: str
    args: tuple[Any, ...]
    outputs: tuple[Any, ...]
    skew: Skew | None
    calls_per_s: float
    time_share: float
    timed: bool
    flops_per_s: float | None
    bytes_per_s: float | None
    intensity_bin: int | None
    counters: Mapping[str, float] = field(default_factory=dict)
    autocast_share: float | None = None

    @property
    def time_per_call_s(self) -> float | None:
        return self.time_share / self.calls_per_s if self.timed else None

    @property
    def has_costs(self) -> bool:
        return self.flops_per_s is not None and self.bytes_per_s is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMotif:
    """A motif of one member: indices into `Target.clusters`, and how often it runs."""

    member: str
    clusters: tuple[int, ...]
    count_per_s: float


def counters_over(clusters: Sequence[TargetCluster]) -> dict[str, float]:
    """Hardware counters that are known for at least COUNTED of these clusters' time: means over that time; for
    SUM_COUNTERS, the sum per second, as if what was not counted were like the rest of the time."""
    total = math.fsum(c.time_share for c in clusters)
    counters: dict[str, float] = {}
    for name in COUNTERS:
        pairs = [(c.time_share, c.counters[name]) for c in clusters if name in c.counters]
        spent = math.fsum(share for share, _ in pairs)
        if not spent or spent < COUNTED * total:
            continue
        if name in SUM_COUNTERS:
            counters[name] = math.fsum(value for _, value in pairs) * total / spent
        else:
            counters[name] = math.fsum(share * value for share, value in pairs) / spent
    return counters


def target_cluster(
    member: str, index: int, cluster: Cluster, measurement: Measurement, steps_per_s: float
) -> TargetCluster:
    """A cluster of the member of this name, as its measurement timed it."""
    time_s = measurement.cluster_time_s[index]
    calls_per_s = cluster.calls * steps_per_s
    return TargetCluster(
        member=member,
        cluster=index,
        op=cluster.op,
        phase=cluster.phase,
        category=cluster.category,
        kernel_class=class_now(measurement.kernel_class[index] or UNKNOWN_KERNEL_CLASS, cluster.args),
        args=cluster.args,
        outputs=cluster.outputs,
        skew=cluster.skew,
        calls_per_s=calls_per_s,
        time_share=0.0 if time_s is None else time_s * steps_per_s,
        timed=time_s is not None,
        flops_per_s=None if cluster.flops is None else cluster.flops * calls_per_s,
        bytes_per_s=None if cluster.bytes_moved is None else cluster.bytes_moved * calls_per_s,
        # From costs per call: the rates' rounding could move an exact power of two to the next bin.
        intensity_bin=None
        if cluster.flops is None or cluster.bytes_moved is None
        else intensity_bin(cluster.flops, cluster.bytes_moved),
        counters=_counters(measurement, index, steps_per_s),
        autocast_share=cluster.autocast_share,
    )


def _counters(measurement: Measurement, index: int, steps_per_s: float) -> dict[str, float]:
    gpu = measurement.gpu
    if gpu is None:
        return {}
    known = {name: value for name, values in gpu.counters.clusters.items() if (value := values[index]) is not None}
    return {name: value * (steps_per_s if name in SUM_COUNTERS else 1.0) for name, value in known.items()}
