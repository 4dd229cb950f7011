"""Between which towers of a network its collectives run."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from statsnet.blocks.base import Config
from statsnet.blocks.collective import PHASES
from statsnet.proxy.towers import Tower
from statsnet.signatures.documents import SpecCollective


def collective_configs(
    collectives: Sequence[SpecCollective], towers: Sequence[Tower], *, training: bool
) -> list[Config]:
    """Constructor arguments of each collective, in order: one that begins when half of its phase is computed begins
    after so many towers as take half of the phase's time."""
    phases = PHASES if training else PHASES[:1]
    ends = {phase: _ends_of_towers(towers, phase) for phase in phases}
    return [
        {
            "operation": c.operation,
            "elements": c.elements,
            "dtype": c.dtype,
            "phase": c.phase,
            "after": _nearest(c.begins_at, ends[c.phase]),
            "until": _nearest(c.awaited_at, ends[c.phase]),
            **({"group": c.group_size, "stride": c.group_stride} if c.group_size and c.group_stride else {}),
        }
        for c in collectives
        for _ in range(c.count)
    ]


def _ends_of_towers(towers: Sequence[Tower], phase: str) -> list[float]:
    """When each tower of a phase ends, after a 0, as shares of the phase. Of those without a known time all take as
    long. Operators in the backward pass run at its beginning, as if they were one tower."""
    shares = [1.0 if t.purpose is None else t.purpose.step_share for t in towers]
    pairs = list(zip(towers, shares, strict=True))
    if phase == "forward":
        each = [0.0 if t.in_backward else share for t, share in pairs]
    else:
        later = [share for t, share in pairs if t.in_backward]
        each = [sum(later)] if later else []
        each += [share for t, share in reversed(pairs) if not t.is_operator]
    whole = sum(each) or 1.0
    return [0.0, *(end / whole for end in accumulate(each))]


def _nearest(share: float, ends: Sequence[float]) -> int:
    """The number of towers after whose end a share of the phase is most nearly computed."""
    place = bisect_left(ends, share)
    if place == len(ends):
        return place - 1
    return place if place == 0 or ends[place] - share <= share - ends[place - 1] else place - 1
