"""What a long piece of work reports while it runs, and where its time went."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from statsnet.deadline import NEVER, Clock, Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What is being done, the share of it that is done, and the seconds left (None: not known). With `of_all`, both are
    of the whole command, not of this stage alone."""

    stage: str
    done: float = 0.0
    remaining_s: float | None = None
    of_all: bool = False


Report = Callable[[Progress], None]


def silent(_progress: object) -> None:
    """Reports to nobody."""


SURE_AFTER_S = 60.0
"""Before, what is left is a guess from counts alone, and is not shown."""

OVERDUE = 0.25
"""By this share of the time that it has run already, a stage that should have ended is expected to go on."""


class Stages:
    """The stages of a command, one at a time: how long each took, and how long the rest will take.

    Whoever knows of coming work says how long it is expected to take. A running stage corrects this by its own speed.
    """

    def __init__(self, report: Report = silent, deadline: Deadline = NEVER, clock: Clock = time.monotonic) -> None:
        self.clock = clock
        self.spent_s: dict[str, float] = {}
        self._report, self._deadline = report, deadline
        self._begin_s = clock()
        self._ahead_s: dict[str, float] = {}
        self._stage_begin_s, self._stage_expected_s, self._stage_done = self._begin_s, 0.0, 0.0
        self._running = False

    def expect(self, expected_s: Mapping[str, float]) -> None:
        """How long these stages will take from now on, apart from the one that is running. Replaces what was expected
        of them before."""
        self._ahead_s |= expected_s

    @contextmanager
    def stage(self, name: str, expected_s: float | None = None) -> Iterator[None]:
        """A stage that runs; one that comes several times adds up. It is expected to take `expected_s`, or all that is
        expected of its name."""
        ahead_s = self._ahead_s.get(name, 0.0)
        expected_s = ahead_s if expected_s is None else expected_s
        self._ahead_s[name] = max(ahead_s - expected_s, 0.0)
        self._stage_begin_s, self._stage_expected_s, self._stage_done = self.clock(), expected_s, 0.0
        self._running = True
        try:
            yield
        finally:
            self.spent_s[name] = self.spent_s.get(name, 0.0) + self.clock() - self._stage_begin_s
            self._running = False

    def advance(self, share: float) -> None:
        """So much more of the present stage is done."""
        self._stage_done = min(self._stage_done + share, 1.0)

    def report(self, progress: Progress) -> None:
        """Pass on what the present stage does, with how far the whole is."""
        total_s, left_s = self.total_s, self.left_s
        done = total_s / (total_s + left_s) if total_s > 0 else 0.0
        known = total_s >= SURE_AFTER_S
        self._report(replace(progress, done=done, remaining_s=left_s if known else None, of_all=True))

    @property
    def total_s(self) -> float:
        """Seconds since the command began."""
        return self.clock() - self._begin_s

    @property
    def left_s(self) -> float:
        """Expected seconds until the end: at most until the deadline, but until the present stage's end in any case.
        What goes on after the deadline cannot be left out."""
        of_stage_s = self._left_of_stage_s()
        all_s = of_stage_s + sum(self._ahead_s.values())
        return all_s if self._deadline.passed else max(of_stage_s, min(all_s, self._deadline.left_s))

    def _left_of_stage_s(self) -> float:
        """The further a stage is, the more its own speed counts. One that does not say how far it is, and takes longer
        than expected, is OVERDUE."""
        if not self._running:
            return 0.0
        elapsed_s, done = self.clock() - self._stage_begin_s, self._stage_done
        if not done:
            return max(self._stage_expected_s - elapsed_s, OVERDUE * elapsed_s)
        return (1 - done) * (elapsed_s + (1 - done) * self._stage_expected_s)
