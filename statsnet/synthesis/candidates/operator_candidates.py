"""Candidates for what no other block has in its layout: operators by themselves."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import zip_longest

import numpy as np

from statsnet.blocks import asked
from statsnet.blocks.operator import OperatorKind
from statsnet.signatures.parameters import LOOK_UPS
from statsnet.signatures.shapes import shape_class
from statsnet.signatures.target import Target
from statsnet.signatures.target_cluster import TargetCluster
from statsnet.synthesis.candidates.candidates import Candidate, StepRoom, nearest_sizes
from statsnet.synthesis.candidates.parts_of_layers import run_with_layers
from statsnet.synthesis.candidates.sources import Source
from statsnet.synthesis.costs.loads import StepLoad, least_times_s
from statsnet.workloads.optimizers import SETTINGS

KIND = OperatorKind()

MAIN = 0.25
"""A block can stand for a class if it spends this share of its time in it, or as large a share as the target does:
else no number of such blocks would bring the class's time without much of something else."""

SHORT = 4e-3
"""Nor can blocks stand for a class if their network lacks this share of the step in it."""

SHORT_IN_ALL = 1e-2
"""Of the other classes the most lacking follow, until what is left lacks no more than this share of the step in all. In
training there are dozens of them."""

MOST_AT_ONCE, LEAST_COARSE = 1 / 2, 1e-3
"""Nor can blocks if a single one brings more than the first share of the class's time, and more than SHORT of the step:
the program counts in whole blocks. This holds for classes of at least the second share of the target's time."""

OF_TABLES = LOOK_UPS | {"embedding_dense_backward"}
"""Look-ups and their gradients: by itself, each would hold a table of its own."""

LEAST_SHARE = 3e-4
"""Kernel classes with a smaller share of the target's time get no block of their own."""

MOST_OF_CLASS = 3
"""Most operators of one kernel class, each of another shape class."""

MOST = 120
"""Most candidates."""


def operator_candidates(
    target: Target, missing: Mapping[str, float], *, budget_s: float, own_dtype: str, own_sizes: bool
) -> list[Candidate]:
    """Candidates for kernel classes of which blocks lack these shares of the time: the nearest one of each class, the
    most lacking first; then the next of each. What cannot be rebuilt is passed over."""
    absorbed, room = run_with_layers(target), StepRoom.of(target, budget_s)
    of_classes: list[list[Candidate]] = []
    for name in sorted(missing, key=lambda name: (-missing[name], name)):
        if missing[name] >= LEAST_SHARE:
            most = MOST_OF_CLASS if missing[name] > SHORT else 1
            sources = _sources(target, name, own_dtype, absorbed)[:most]
            of_classes.append([c for s in sources for c in nearest_sizes(s, room, own_sizes=own_sizes)])
    in_turn = (c for turn in zip_longest(*of_classes) for c in turn if c is not None)
    return list({c.key: c for c in in_turn}.values())[:MOST]


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


def too_coarse(shares: Mapping[str, float], loads: Iterable[StepLoad], budget_s: float) -> dict[str, float]:
    """The kernel classes of which every block brings too much at once, and their shares of the target's operator time.
    None of a share so small that a whole block more or less is no matter; no look-ups, see `short_of`."""
    least_s = least_times_s(loads)
    return {
        name: share
        for name, share in shares.items()
        if share >= LEAST_COARSE
        and least_s.get(name, math.inf) > max(MOST_AT_ONCE * share, SHORT) * budget_s
        and name.partition("|")[0] not in OF_TABLES
    }


def short_of(lacking: np.ndarray, keys: Sequence[tuple[str, str]]) -> dict[str, float]:
    """The kernel classes that a network has too little of, and the shares of the step that it lacks. Blocks have them,
    but bring too much else: in training, a function brings the operators of its derivative, and a layer three products.
    `keys` are those of the program's rows, `lacking` is what these are short of. Classes OF_TABLES are left out."""
    of_classes = {name: float(s) for (group, name), s in zip(keys, lacking, strict=True) if group == "kernel_class"}
    may = {n: share for n, share in of_classes.items() if share > LEAST_SHARE and n.partition("|")[0] not in OF_TABLES}
    names = sorted(may, key=lambda name: (may[name], name))
    sums = np.cumsum([may[name] for name in names])
    return {n: may[n] for n, in_all in zip(names, sums, strict=True) if may[n] > SHORT or in_all > SHORT_IN_ALL}


def _sources(target: Target, kernel_class: str, own_dtype: str, absorbed: Container[int]) -> list[Source]:
    """The most expensive operator of each shape class that can be rebuilt, with its shape class's share of the time.
    None of those that runtimes make a part of the layer before them (`absorbed`, by index): alone they would cost
    a pass that no model waits for."""
    by_shape: dict[str, list[TargetCluster]] = defaultdict(list)
    stepped_by = {member.name: member.signature.optimizer for member in target.members}
    for index, cluster in enumerate(target.clusters):
        if cluster.kernel_class != kernel_class or index in absorbed:
            continue
        is_stepped = cluster.phase == "optimizer" and stepped_by[cluster.member] in SETTINGS  # by the network's own
        if not is_stepped and cluster.time_share > 0:
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
