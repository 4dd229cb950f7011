"""Which operators by themselves run in the backward pass of a training step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from statsnet.proxy.towers import Tower
from statsnet.signatures.target import Target
from statsnet.synthesis.costs.loads import OperatorGroup, means_over_time


def with_phases(
    towers: Sequence[Tower], groups_of: Mapping[str, Sequence[OperatorGroup]], target: Target
) -> list[Tower]:
    """The towers in their order, with operators by themselves moved to the backward pass. As many of each kernel class
    are moved as bring the pass's share of the class's time nearest to the target's. What other blocks spend there
    counts. `groups_of` are blocks' operators by identity, without those of optimizers."""
    shares = _backward_shares(target)
    owed_s: dict[str, float] = defaultdict(float)
    for tower in towers:
        for group in (g for b in tower.blocks for g in groups_of[b.identity]):
            spent_s = 0.0 if tower.is_operator or group.phase != "backward" else group.time_s
            owed_s[group.kernel_class] += shares.get(group.kernel_class, 0.0) * group.time_s - spent_s
    placed: list[Tower] = []
    for tower in towers:
        groups = groups_of[tower.blocks[0].identity]
        main = max(groups, key=lambda g: g.time_s, default=None)
        is_owed = tower.is_operator and main is not None and owed_s[main.kernel_class] > main.time_s / 2
        if is_owed and main is not None:
            owed_s[main.kernel_class] -= main.time_s
        placed.append(replace(tower, in_backward=is_owed))
    return placed


def _backward_shares(target: Target) -> dict[str, float]:
    """Kernel class -> the backward pass's share of its time; that of optimizers does not count. None of a target that
    is no training step: its proxies have no such pass."""
    clusters = [c for c in target.clusters if c.phase != "optimizer"] if target.mode == "training" else []
    return means_over_time((c.kernel_class, c.time_share, c.phase == "backward") for c in clusters)
