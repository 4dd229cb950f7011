"""Between which towers of a network its collectives run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from statsnet.blocks.base import Config
from statsnet.blocks.collective import PHASES
from statsnet.proxy.towers import Tower
from statsnet.signatures.documents import SpecCollective

Numbers = np.ndarray[tuple[int], np.dtype[np.float64]]

FORWARD_SHARE = 1 / 3
"""Of a trained tower's time: for one product of a forward pass, a backward pass has two."""

PLACE_COUNTS = 0.1
"""How much it counts that a collective begins at another place, against that more or less is computed beside it: what
is computed makes the difference, and not all towers are short."""


def collective_configs(
    collectives: Sequence[SpecCollective], towers: Sequence[Tower], *, training: bool
) -> list[Config]:
    """Constructor arguments of each collective, in order: one that begins when half of its phase is computed begins
    after so many towers as take half of the phase's time."""
    phases = PHASES if training else PHASES[:1]
    ends = {phase: _ends_of_towers(towers, phase, training) for phase in phases}
    configs: list[Config] = []
    for c in collectives:
        after, until = _nearest(c.begins_at, c.awaited_at, ends[c.phase])
        config: Config = {
            "operation": c.operation,
            "elements": c.elements,
            "dtype": c.dtype,
            "phase": c.phase,
            "after": after,
            "until": until,
        }
        of_group = {"group": c.group_size, "stride": c.group_stride} if c.group_size and c.group_stride else {}
        configs += [config | of_group] * c.count
    return sorted(configs, key=lambda c: (PHASES.index(c["phase"]), c["after"]))


def _ends_of_towers(towers: Sequence[Tower], phase: str, training: bool) -> Numbers:
    """When each tower of a phase ends, after a 0, as shares of the phase. Of those without a known time all take as
    long. Operators by themselves have one pass, others in training both. Operators in the backward pass run before its
    other towers, which run from the last to the first."""
    shares = [1.0 if t.purpose is None else t.purpose.step_share for t in towers]
    pairs = list(zip(towers, shares, strict=True))
    if phase == "forward":
        of_both = FORWARD_SHARE if training else 1.0
        each = [0.0 if t.in_backward else share * (1.0 if _has_one_pass(t) else of_both) for t, share in pairs]
    else:
        each = [share for t, share in pairs if t.in_backward]
        each += [(1 - FORWARD_SHARE) * share for t, share in reversed(pairs) if not _has_one_pass(t)]
    return np.concatenate([[0.0], np.cumsum(each)]) / (sum(each) or 1.0)


def _has_one_pass(tower: Tower) -> bool:
    return tower.blocks[0].kind == "operator"


def _nearest(begin: float, end: float, ends: Numbers) -> tuple[int, int]:
    """The numbers of towers between whose ends a share of the phase is computed that is nearest to the one from `begin`
    to `end`. Among such pairs, one that is near to its place; what ends with the phase does so exactly."""
    last = len(ends) - 1
    if end >= 1:
        return int(np.abs(ends - begin).argmin()), last
    first = np.arange(last + 1)
    above = np.searchsorted(ends, ends + (end - begin)).clip(0, last)
    after, until = np.tile(first, 2), np.concatenate([np.maximum(above - 1, first), above])
    costs = np.abs(ends[until] - ends[after] - (end - begin)) + PLACE_COUNTS * np.abs(ends[after] - begin)
    best = costs.argmin()
    return int(after[best]), int(until[best])
