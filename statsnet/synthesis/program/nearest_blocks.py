"""What stands for operators that no block has: the operators of a block that are most like them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from statsnet.synthesis.costs.loads import OperatorGroup, StepLoad


def nearest_classes(target: StepLoad, loads: Iterable[StepLoad]) -> dict[str, OperatorGroup]:
    """For each kernel class of the target that no candidate has, the candidates' operators nearest to it: of the same
    kind if there are any, else of the same category, else any; among these, by FLOP/byte and bytes of a call."""
    known = {(g.kernel_class, g.shape_class): g for load in loads for g in load.groups if g.time_s > 0}
    classes = {name for name, _ in known}
    opaque: dict[str, list[OperatorGroup]] = defaultdict(list)
    for group in target.groups:
        if group.kernel_class not in classes:
            opaque[group.kernel_class].append(group)
    return {name: _nearest(groups, known.values()) for name, groups in opaque.items()} if known else {}


def with_nearest(target: StepLoad, nearest: Mapping[str, OperatorGroup]) -> StepLoad:
    """The target's load, in which opaque operators have the class and shape of what is nearest to them. Their time,
    FLOPs, bytes and calls stay."""
    groups = tuple(
        replace(g, kernel_class=near.kernel_class, shape_class=near.shape_class, category=near.category)
        if (near := nearest.get(g.kernel_class))
        else g
        for g in target.groups
    )
    return replace(target, groups=groups)


def _nearest(opaque: Iterable[OperatorGroup], known: Iterable[OperatorGroup]) -> OperatorGroup:
    """To the one that takes the most time of a class's."""
    largest = max(opaque, key=lambda g: g.time_s)
    return min(known, key=lambda g: (_distance(largest, g), g.kernel_shape))


def _distance(opaque: OperatorGroup, group: OperatorGroup) -> tuple[bool, bool, float]:
    kinds = {g.kernel_class.split("|")[0] for g in (opaque, group)}
    far = abs(_intensity(opaque) - _intensity(group)) + 0.25 * abs(_size(opaque) - _size(group))
    return len(kinds) > 1, opaque.category != group.category, far


def _intensity(group: OperatorGroup) -> float:
    return math.log2((group.flops + 1e-3 * group.bytes + 1e-9) / (group.bytes + 1e-9))


def _size(group: OperatorGroup) -> float:
    return math.log2(1.0 + group.bytes / max(group.calls, 1e-9))
