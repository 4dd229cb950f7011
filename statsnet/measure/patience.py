"""How long a command may wait for quiet moments: one allowance for all of its processes.

A command may spend SHARE of its run time so far, or the seconds in STATSNET_PATIENCE_S, on waiting and on repeating
what was disturbed. When that is used up, measurements go on without waiting, and count as disturbed. The program that
the user started keeps count: it tells each measuring process when the command began and what has been spent, and the
process says what it spends, and of each measurement whether the machine was at its best.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from statsnet.errors import UsageError
from statsnet.progress import silent

SHARE = 0.2


@dataclass(slots=True, kw_only=True)
class Patience:
    """`begun_s` is on the clock `time.monotonic`, which all processes of a machine share. `tell` gets the seconds of
    whatever is spent here, `tell_measured` whether the machine was at its best."""

    begun_s: float = field(default_factory=time.monotonic)
    spent_s: float = 0.0
    measured: int = 0
    disturbed: int = 0
    tell: Callable[[float], None] = silent
    tell_measured: Callable[[bool], None] = silent

    def restart(self) -> None:
        """A new command begins now."""
        self.begun_s, self.spent_s, self.measured, self.disturbed = time.monotonic(), 0.0, 0, 0

    def left_s(self, now_s: float) -> float:
        """What may still be spent at this time; negative if the last wait took longer than was allowed."""
        limit_s = patience_limit_s()
        allowed_s = SHARE * (now_s - self.begun_s) if limit_s is None else limit_s
        return allowed_s - self.spent_s

    def spend(self, seconds: float) -> None:
        self.spent_s += seconds
        self.tell(seconds)

    def count(self, *, at_best: bool) -> None:
        """Of one measurement."""
        self.measured += 1
        self.disturbed += not at_best
        self.tell_measured(at_best)


PATIENCE = Patience()
"""That of the command which this process runs, or measures for. In a program that is no command, it begins with it."""


def patience_limit_s() -> float | None:
    """The seconds in STATSNET_PATIENCE_S; None if it is not set. Raises UsageError if it is no number of seconds."""
    text = os.environ.get("STATSNET_PATIENCE_S", "")
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise UsageError(
            f"STATSNET_PATIENCE_S is '{text}', no number of seconds",
            hint="STATSNET_PATIENCE_S=0 measures without waiting for a quiet moment",
        )
    return seconds
