"""How much a signature tells: `full`, `statistical`, `coarse`. A file can be made to tell less, never more.

full         every cluster with its exact sizes, and motifs
statistical  exact sizes, but for counts that data decide (data_counts.py); no order but that within motifs; rare
             clusters folded into others
coarse       sizes in half octaves, counts in steps, and work, times and memory of these (coarse.py)
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import get_args

from statsnet.errors import UsageError
from statsnet.signatures.coarse import CostOf, as_coarse
from statsnet.signatures.collectives import kind_of
from statsnet.signatures.data_counts import told_memory, with_told_counts
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.merging import folded, merge
from statsnet.signatures.model import Cluster, Level, Signature
from statsnet.signatures.order import in_canonical_order
from statsnet.signatures.rounding import without_order

LEVELS: tuple[Level, ...] = get_args(Level)
"""From the one that tells most."""

DEFAULT_LEVEL: Level = "statistical"

RARE = {"full": 0.0, "statistical": 0.002, "coarse": 0.02}
"""Clusters below this share of a step's FLOPs, bytes and time are folded into another one of their operator."""


def finest(levels: Sequence[Level]) -> Level:
    """The level of the one that tells most; `full` for none."""
    return min(levels, key=LEVELS.index, default="full")


def coarsest(levels: Sequence[Level]) -> Level:
    """The level of the one that tells least; `full` for none."""
    return max(levels, key=LEVELS.index, default="full")


def coarsen(signature: Signature, level: Level, cost_of: CostOf) -> Signature:
    """The signature at a level. `cost_of` gives the work of an operator's call (profiling.costs), from which that of
    coarse sizes follows. Raises UsageError for a level that tells more than the signature's."""
    if LEVELS.index(level) < LEVELS.index(signature.level):
        raise UsageError(
            f"a signature of level '{signature.level}' cannot become '{level}'",
            cause="what was left out is in no file",
            hint="profile the workload again with --level " + level,
        )
    if level == signature.level:
        return signature
    clusters = with_told_counts(signature.clusters, cost_of)
    counted = {i for i, (exact, rough) in enumerate(zip(signature.clusters, clusters, strict=True)) if exact != rough}
    told = replace(
        signature,
        level=level,
        clusters=tuple(map(_without_order, clusters)),
        memory=told_memory(signature.memory) if counted else signature.memory,
        measurements=tuple(_told(m, signature.clusters, counted) for m in signature.measurements),
    )
    if level == "coarse":
        return in_canonical_order(as_coarse(told, RARE[level], cost_of))
    return in_canonical_order(merge(told, folded(told, RARE[level])))


def _without_order(cluster: Cluster) -> Cluster:
    args, outputs = (tuple(map(without_order, values)) for values in (cluster.args, cluster.outputs))
    return replace(cluster, args=args, outputs=outputs)


def _told(measurement: Measurement, clusters: Sequence[Cluster], counted: Set[int]) -> Measurement:
    """Where in a step a collective begins is told for all of its kind and phase together: by themselves, the places
    would be the order of layers. The grids of kernels that `counted` clusters launch would tell their counts."""
    gpu, collectives = measurement.gpu, measurement.collectives
    if collectives is not None:
        collectives = collectives.without_order([(kind_of(c.op), c.phase) for c in clusters])
    return replace(measurement, gpu=gpu and gpu.without_grids(counted), collectives=collectives)
