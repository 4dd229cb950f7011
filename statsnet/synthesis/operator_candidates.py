"""Candidates for what no other block has in its layout: operators by themselves."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping

from statsnet.blocks import asked
from statsnet.blocks.operator import OperatorKind
from statsnet.signatures.shapes import shape_class
from statsnet.signatures.target import Target
from statsnet.signatures.target_cluster import TargetCluster
from statsnet.synthesis.candidates import Candidate, nearest_sizes
from statsnet.synthesis.loads import StepLoad
from statsnet.synthesis.sources import Source

KIND = OperatorKind()

MAIN = 0.25
"""A block can stand for a class if it spends this share of its time in it, or as large a share as the target does:
else no number of such blocks would bring the class's time without much of something else."""

LEAST_SHARE = 3e-4
"""Kernel classes with a smaller share of the target's time get no block of their own."""

MOST_OF_CLASS = 3
"""Most operators of one kernel class, each of another shape class."""

MOST = 90
"""Most candidates."""


def operator_candidates(
    target: Target, loads: Iterable[StepLoad], *, budget_s: float, own_dtype: str, own_sizes: bool
) -> list[Candidate]:
    """Candidates for the kernel classes for which no block of these loads can stand, the most expensive classes first.
    What cannot be rebuilt is passed over."""
    missing = not_served(target.kernel_class_shares, loads)
    chosen: dict[str, Candidate] = {}
    for name in sorted(missing, key=lambda name: (-missing[name], name)):
        if missing[name] < LEAST_SHARE or len(chosen) >= MOST:
            break
        for source in _sources(target, name, own_dtype):
            for candidate in nearest_sizes(source, budget_s, target.mode, own_sizes=own_sizes):
                chosen.setdefault(candidate.key, candidate)
    return list(chosen.values())[:MOST]


def not_served(shares: Mapping[str, float], loads: Iterable[StepLoad]) -> dict[str, float]:
    """The kernel classes for which no block can stand, and their shares of the target's operator time."""
    most: dict[str, float] = defaultdict(float)
    for load in loads:
        spent_s = sum(g.time_s for g in load.groups)
        of_load: dict[str, float] = defaultdict(float)
        for group in load.groups:
            of_load[group.kernel_class] += group.time_s / spent_s if spent_s else 0.0
        for name, share in of_load.items():
            most[name] = max(most[name], share)
    return {name: share for name, share in shares.items() if not most[name] or most[name] < min(MAIN, share)}


def _sources(target: Target, kernel_class: str, own_dtype: str) -> list[Source]:
    """The most expensive operator of each shape class that can be rebuilt, with its shape class's share of the time."""
    by_shape: dict[str, list[TargetCluster]] = defaultdict(list)
    for cluster in target.clusters:
        if cluster.kernel_class == kernel_class and cluster.phase != "optimizer" and cluster.time_share > 0:
            by_shape[shape_class(cluster.op, list(cluster.args), list(cluster.outputs))].append(cluster)
    sources = []
    for clusters in sorted(by_shape.values(), key=lambda c: -sum(x.time_share for x in c))[:MOST_OF_CLASS]:
        for cluster in sorted(clusters, key=lambda c: (-c.time_share, c.op, json.dumps(c.args)))[:MOST_OF_CLASS]:
            config = asked(lambda motif: KIND.of_call(motif[0], own_dtype), [cluster])  # type: ignore[list-item]
            if config is not None:
                share = sum(c.time_share for c in clusters)
                sources.append(Source(KIND.name, config, None, cluster.time_per_call_s or 0.0, share))
                break
    return sources
