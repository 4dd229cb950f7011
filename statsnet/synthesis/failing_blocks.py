"""Networks that do not run, without the blocks that may be the cause; no later network holds these."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from statsnet.blocks import KINDS
from statsnet.synthesis.costs.block_costs import BlockCosts, Counts


def without_untried(costs: BlockCosts, counts: Counts) -> tuple[BlockCosts, Counts]:
    """The same network, with the blocks that were measured alone in the place of those in other sizes that never ran;
    without these where none has the same optimizer. And costs that offer them no more."""
    measured = {(p.identity, p.optimizer): key for key, p in costs.known.items()}
    untried, others = set(), Counter[str]()
    for key, count in counts.items():
        identity = costs.known[key].identity
        if identity in costs.resized and identity not in costs.in_place:
            untried.add(identity)
            identity, _ = costs.measured_alone(identity)
        if (sound := measured.get((identity, costs.known[key].optimizer))) is not None:
            others[sound] += count
    return replace(costs, unsound=costs.unsound | untried), dict(others)


def without_operators(costs: BlockCosts, counts: Counts) -> tuple[BlockCosts, Counts]:
    """The same network without operators by themselves, and costs that offer none any more."""
    alone = {key for key, p in costs.known.items() if KINDS[p.kind].ends_tower(p.config)}
    placed = tuple(p for p in costs.placed if p.key not in alone)
    unsound = costs.unsound | {costs.known[key].identity for key in alone}
    others = {key: count for key, count in counts.items() if key not in alone}
    return replace(costs, placed=placed, unsound=unsound), others
