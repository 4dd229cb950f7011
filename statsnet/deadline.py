"""When a command must have ended, for whoever decides whether another measurement fits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]
"""Seconds since some moment, as `time.monotonic` gives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """A moment of the clock; infinity: never."""

    ends_at_s: float = math.inf
    clock: Clock = time.monotonic

    @classmethod
    def after(cls, limit_s: float | None, clock: Clock = time.monotonic) -> Deadline:
        """So many seconds from now; None: never."""
        return cls(ends_at_s=math.inf if limit_s is None else clock() + limit_s, clock=clock)

    @property
    def left_s(self) -> float:
        """Seconds until then: infinity if there is no limit, 0 once it is over."""
        return max(self.ends_at_s - self.clock(), 0.0)

    @property
    def passed(self) -> bool:
        return self.left_s <= 0.0

    def leaves(self, duration_s: float) -> bool:
        """Whether something that takes so long would end in time."""
        return duration_s < self.left_s


NEVER = Deadline()
