"""Statistics used alike on what a mix asks for and on what a proxy achieves."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from statistics import quantiles
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

LOWEST_INTENSITY_BIN = -6
HIGHEST_INTENSITY_BIN = 10


def shares(amounts: Mapping[Key, float] | Iterable[tuple[Key, float]]) -> dict[Key, float]:
    """Amounts per key, equal keys added up, divided by their sum; keys without an amount are left out.

    Empty if there is nothing to share. Raises ValueError for a negative or non-finite amount.
    """
    parts: dict[Key, list[float]] = {}
    for key, amount in amounts.items() if isinstance(amounts, Mapping) else amounts:
        if not (math.isfinite(amount) and amount >= 0):
            raise ValueError(f"{amount} is not an amount")
        parts.setdefault(key, []).append(amount)
    sums = {key: math.fsum(values) for key, values in parts.items()}
    largest = max(sums.values(), default=0.0)
    if not largest > 0:
        return {}
    scaled = {key: value / largest for key, value in sums.items()}  # a sum of denormals would lose digits
    total = math.fsum(scaled.values())
    return {key: value / total for key, value in scaled.items() if value > 0}


def total_variation(p: Mapping[Key, float], q: Mapping[Key, float]) -> float:
    """½ Σ|p_k - q_k| of two distributions, in [0, 1]; each is normalised first.

    Two empty distributions are equal (0), an empty one and another have nothing in common (1).
    """
    p, q = shares(p), shares(q)
    if not p or not q:
        return 0.0 if not p and not q else 1.0
    difference = math.fsum(abs(p.get(k, 0.0) - q.get(k, 0.0)) for k in {**p, **q})
    return min(1.0, difference / 2)


def earth_movers_distance(p: Mapping[int, float], q: Mapping[int, float]) -> float:
    """Bins that the mass of `p` has to move on average to become `q`: the area between the cumulative shares.

    Each is normalised first. Raises ValueError if exactly one of them is empty.
    """
    p, q = shares(p), shares(q)
    if not p and not q:
        return 0.0
    if not p or not q:
        raise ValueError("an empty histogram is at no distance from another")
    bins = sorted({*p, *q})
    # Not by scipy.stats, which takes half a second to import, and every fit asks for this.
    moved = accumulate(p.get(b, 0.0) - q.get(b, 0.0) for b in bins)
    steps = zip(moved, pairwise(bins), strict=False)
    return math.fsum(abs(share) * (after - before) for share, (before, after) in steps)


def interquartile_share(samples: Sequence[float]) -> float | None:
    """Interquartile range ÷ median; None for a single sample."""
    if len(samples) < 2:
        return None
    low, middle, high = quantiles(samples, n=4, method="inclusive")
    return (high - low) / middle


def intensity_bin(flops: float, nbytes: float) -> int:
    """⌊log2(FLOP per byte)⌋, clipped to [-6, 10].

    Operators without FLOPs (copies, gathers) are in the lowest bin, FLOPs without bytes in the highest.
    """
    if flops <= 0:
        return LOWEST_INTENSITY_BIN
    intensity = flops / nbytes if nbytes > 0 else math.inf
    if not 2.0**LOWEST_INTENSITY_BIN <= intensity < 2.0**HIGHEST_INTENSITY_BIN:
        return LOWEST_INTENSITY_BIN if intensity < 1 else HIGHEST_INTENSITY_BIN
    return math.frexp(intensity)[1] - 1  # exact at powers of two, as a logarithm is not


def faster_half(times_s: Sequence[float]) -> list[float]:
    """The faster half of these times in their order, two at least. Disturbances only add time, so this makes times of
    different moments comparable: when bare steps were compared whole with the faster half of profiled ones, a
    signature's `unexplained_share` reached 0.29 on a busy machine."""
    limit_s = sorted(times_s)[: max(2, (len(times_s) + 1) // 2)][-1]
    return [time_s for time_s in times_s if time_s <= limit_s]


FEWEST, ALIKE = 3, 0.02
"""With only two times of a step, nobody could tell which one was disturbed. Of three, the faster two must differ by
less than this share."""


def agree(times_s: Sequence[float]) -> bool:
    """Whether there are FEWEST times, and the faster half of them are alike."""
    if len(times_s) < FEWEST:
        return False
    faster = faster_half(times_s)
    return max(faster) < (1 + ALIKE) * min(faster)
