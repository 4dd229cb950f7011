"""Coarser signatures: what does a proxy lose if less is known of its suite? Each function returns a coarser target."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from statsnet.signatures.target import Target, TargetCluster

SMALL = 16
"""Numbers below stay as they are: kernel sizes, strides, heads."""

DEAREST = 20


def rounded(target: Target) -> Target:
    """Every dimension of SMALL or more becomes the nearest power of two, so that equal ones stay equal."""
    clusters = (replace(c, args=_rounded(c.args), outputs=_rounded(c.outputs)) for c in target.clusters)
    return replace(target, clusters=tuple(clusters))


def dearest(target: Target, count: int = DEAREST) -> Target:
    """Keeps the `count` most expensive clusters of each member, which stand for all of its time."""
    kept: dict[int, float] = {}
    for member in target.members:
        own = [i for i, c in enumerate(target.clusters) if c.member == member.name]
        chosen = sorted(own, key=lambda i: -target.clusters[i].time_share)[:count]
        spent = math.fsum(target.clusters[i].time_share for i in chosen)
        whole = math.fsum(target.clusters[i].time_share for i in own)
        kept |= dict.fromkeys(chosen, whole / spent if spent else 1.0)
    places = {old: new for new, old in enumerate(sorted(kept))}
    motifs = (
        replace(
            m,
            clusters=tuple(places[c] for c in m.clusters),
            count_per_s=m.count_per_s * kept[m.clusters[0]],
        )
        for m in target.motifs
        if all(c in kept for c in m.clusters)
    )
    clusters = (_times(target.clusters[i], kept[i]) for i in sorted(kept))
    return replace(target, clusters=tuple(clusters), motifs=tuple(motifs))


def _times(cluster: TargetCluster, factor: float) -> TargetCluster:
    return replace(
        cluster,
        calls_per_s=cluster.calls_per_s * factor,
        time_share=cluster.time_share * factor,
        flops_per_s=None if cluster.flops_per_s is None else cluster.flops_per_s * factor,
        bytes_per_s=None if cluster.bytes_per_s is None else cluster.bytes_per_s * factor,
    )


def _rounded(value: Any) -> Any:
    """An encoded argument (signatures/operators.py)."""
    if isinstance(value, bool) or not isinstance(value, int | list | tuple | Mapping):
        return value
    if isinstance(value, int):
        return value if value < SMALL else 2 ** round(math.log2(value))
    if isinstance(value, list | tuple):
        return type(value)(_rounded(v) for v in value)
    encoded = {key: v if key == "strides" else _rounded(v) for key, v in value.items()}
    if "strides" in encoded:
        encoded["strides"] = _dense(encoded["shape"], encoded["strides"])
    return encoded


def _dense(shape: list[int], strides: list[int]) -> list[int]:
    """Strides of a tensor without gaps whose dimensions lie in memory in the order of `strides`. Expanded dimensions
    stay expanded."""
    dense, reach = [0] * len(shape), 1
    for axis in sorted(range(len(shape)), key=lambda i: (strides[i], shape[i])):
        if strides[axis]:
            dense[axis] = reach
            reach *= shape[axis]
    return dense
