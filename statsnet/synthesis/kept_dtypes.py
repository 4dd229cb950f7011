"""Which towers of a network keep its dtype under autocast, as the mix's operators of their kernel classes do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from statsnet.signatures.target import Target
from statsnet.synthesis.block_measurement import BlockPart
from statsnet.synthesis.network_measurement import NetworkMeasurement


def keep_dtypes(target: Target, measurement: NetworkMeasurement) -> list[bool]:
    """For each tower, in order. Of the towers that spend most of their time in one kernel class, so many keep it that
    their part of the time comes nearest to the mix's."""
    lowered = _lowered_shares(target)
    owed_s: dict[str, float] = defaultdict(float)
    kept: list[bool] = []
    for processes in zip(*measurement.blocks, strict=True):
        time_s = _time_by_kernel_class(processes)
        whole_s = sum(time_s.values())
        known_s = sum(s for name, s in time_s.items() if name in lowered)
        if not known_s:
            kept.append(False)
            continue
        main = max(time_s, key=lambda name: time_s[name])
        share = sum(s * lowered[name] for name, s in time_s.items() if name in lowered) / known_s
        owed_s[main] += (1.0 - share) * whole_s
        kept.append(owed_s[main] > whole_s / 2)
        if kept[-1]:
            owed_s[main] -= whole_s
    return kept


def _lowered_shares(target: Target) -> dict[str, float]:
    """Kernel class -> the share of its time that is spent on numbers of lower precision under autocast."""
    time: dict[str, float] = defaultdict(float)
    lowered: dict[str, float] = defaultdict(float)
    for cluster in target.clusters:
        if cluster.autocast_share is not None and cluster.time_share:
            time[cluster.kernel_class] += cluster.time_share
            lowered[cluster.kernel_class] += cluster.time_share * cluster.autocast_share
    return {name: lowered[name] / share for name, share in time.items()}


def _time_by_kernel_class(processes: Sequence[Sequence[BlockPart]]) -> dict[str, float]:
    """Of a tower, over all processes."""
    time_s: dict[str, float] = defaultdict(float)
    for row in (row for parts in processes for part in parts for row in part.operators):
        time_s[row.kernel_class] += row.time_s
    return time_s
