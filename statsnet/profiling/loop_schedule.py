"""Which step of a user's own loop is captured, profiled, or left alone."""

from __future__ import annotations

import random

WARMUPS = 2
ROUND = ("capture", "profile", "bare")
MAX_ROUNDS = 20
"""After this many rounds the loop runs on undisturbed."""

SMALLEST_NUMBER_OF_STEPS = WARMUPS + len(ROUND)


class Schedule:
    """The purpose of each step. The order changes from the second round on: otherwise, in a loop whose inputs
    repeat, one kind of step could always get the same inputs."""

    def __init__(self) -> None:
        self._random = random.Random(0)
        self._coming = ["warmup"] * WARMUPS
        self._rounds = 0

    def next(self) -> str:
        if not self._coming and self._rounds < MAX_ROUNDS:
            self._coming = self._random.sample(ROUND, len(ROUND)) if self._rounds else list(ROUND)
            self._rounds += 1
        return self._coming.pop(0) if self._coming else "none"

    def end(self) -> None:
        """Leave all further steps alone."""
        self._coming, self._rounds = [], MAX_ROUNDS
