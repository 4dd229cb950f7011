"""What records of other devices say of an operator: how its time changes there, and how well it stands for another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """`factors` holds an operator's time on each device of `Elsewhere.names` ÷ its time here. `risk` is the mean
    absolute error of the logarithm of its factors, if it stands for the target's operator that is most like it."""

    factors: tuple[float, ...]
    risk: float = 0.0


class Elsewhere(Protocol):
    """Other devices, which were recorded. None of them checks a proxy that is made with their help."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def fate(self, op: str, phase: str, args: Sequence[Any], outputs: Sequence[Any]) -> Fate:
        """Of one call, encoded as in signatures/operators.py."""


def mean_fate(fates: Iterable[tuple[float, Fate]]) -> Fate | None:
    """Of several operators, weighted by their seconds; None if they take no time."""
    timed = [(time_s, fate) for time_s, fate in fates if time_s > 0]
    total_s = sum(time_s for time_s, _ in timed)
    if not timed:
        return None
    factors = zip(*(fate.factors for _, fate in timed), strict=True)
    times_s = [time_s for time_s, _ in timed]
    return Fate(
        factors=tuple(sum(f * t for f, t in zip(of_device, times_s, strict=True)) / total_s for of_device in factors),
        risk=sum(time_s * fate.risk for time_s, fate in timed) / total_s,
    )
