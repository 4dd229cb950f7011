"""What other runtimes than torch make a part of the convolution or product before it.

Alone in a proxy it would cost them a pass over the map, for which no model waits. In a model, Inductor has one pass for
all that is done to a map, in the layout of convolutions. Of what is alone in a proxy it makes a pass by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from statsnet.blocks import recognise
from statsnet.blocks.conv import ACTIVATIONS, adds_a_branch, is_batch_norm
from statsnet.profiling.motifs import JOINING
from statsnet.signatures.categories import base_name
from statsnet.signatures.target import Target
from statsnet.signatures.target_cluster import TargetCluster

MOSTLY = 0.5
"""If more than this share of an operator's calls are a part of the layer before it, it is no block by itself."""

HELD = {
    "conv": ("batch norm", "addition", "activation"),
    "deconv": ("batch norm", "activation"),
    "linear": ("addition", "activation"),
}
"""What blocks of layers have behind the convolution or product, in order, each at most once. Other products, as those
of batches and of sparse matrices, have nothing."""


def run_with_layers(target: Target) -> frozenset[int]:
    """The clusters that most of their calls run as a part of a layer, if other runtimes may run what is made for the
    target."""
    behind: dict[int, float] = defaultdict(float)
    for motif in target.motifs if target.may_leave_torch else ():
        clusters = [target.clusters[i] for i in motif.clusters]
        for place, index in enumerate(motif.clusters):
            if is_part_of_a_layer(clusters[place:], clusters):
                behind[index] += motif.count_per_s
    return frozenset(i for i, per_s in behind.items() if per_s > MOSTLY * target.clusters[i].calls_per_s)


def is_part_of_a_layer(run: Sequence[TargetCluster], motif: Sequence[TargetCluster]) -> bool:
    """Whether other runtimes make what a run of a motif begins with a part of the layer before it: always a batch norm;
    anything else where one block holds the whole layer."""
    if run[0] is motif[0] or _layer(motif[0]) not in HELD:
        return False
    return is_batch_norm(run[0]) or is_one_layer(motif)  # type: ignore[arg-type]


def is_one_layer(motif: Sequence[TargetCluster]) -> bool:
    """Whether a motif begins with a layer whose block has all that is behind it."""
    held = HELD.get(_layer(motif[0]))
    if held is None:
        return False
    places = [held.index(part) if (part := _part(c)) in held else len(held) for c in motif[1:]]
    return len(held) not in places and all(a < b for a, b in pairwise(places))


def _layer(cluster: TargetCluster) -> str:
    """The kind of the block of a convolution or product; empty for others."""
    kind, _ = (recognise([cluster]) if cluster.category in JOINING else None) or ("", {})  # type: ignore[list-item]
    return kind


def _part(cluster: TargetCluster) -> str:
    base = base_name(cluster.op)
    if is_batch_norm(cluster):  # type: ignore[arg-type]
        return "batch norm"
    if adds_a_branch(cluster):  # type: ignore[arg-type]
        return "addition"
    return "activation" if base in ACTIVATIONS else ""
