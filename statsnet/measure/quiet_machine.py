"""Measures while the machine is at its best: cores near to each other, and none slowed down by a neighbour.

A hypervisor moves a virtual machine's cores about. Where a processor's cores share a last-level cache in groups, two
of them are in one group for a minute and in two for the next ten seconds: what one thread wrote and another reads then
takes four times as long and more. Or computing is slower for a while, for a core has slept, or has a neighbour. Times
of several states in one comparison are a difference of no device (docs/fidelity.md has figures).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TypeVar

import torch

from statsnet.environment import cache_dir, describe
from statsnet.errors import StatsNetError, UsageError
from statsnet.signatures.canonical import write_json_atomically

T = TypeVar("T")

MOST_THREADS = 8
"""More do not share one last-level cache, or need not: where their threads lie is the user's choice."""

FAR, SLOW = 2.5, 1.15
"""Handing data over, or computing, takes so many times the shortest time seen on this machine. Of handing over, 4
to 9 were found for cores in two groups, up to 1.7 in one; of computing, 1.00 to 1.07 as a rule, else 1.3 to 1.9."""

ATTEMPTS = 3
RAMP_S = 0.1
"""A core that has slept takes up to so long until it is at speed."""

LOOK_AGAIN_S = 0.25
PATIENCE_S = 60.0
"""How long one process waits in all, if the environment's STATSNET_PATIENCE_S does not say otherwise. Behind that, what
it saw is the machine's best, as far as it knows."""

ROUNDS = 20
ROWS, COLUMNS = 512, 256
"""Half a megabyte, that the cores' own caches hold; as many numbers as half of it has are computed on."""


class Probes:
    """Two small operators whose times tell the machine's state: one whose threads read what the others wrote, a matrix
    negated with its rows in the reverse order; and exponentials of what lies in each core's own cache."""

    limits = (FAR, SLOW)

    def __init__(self) -> None:
        self._here, self._there = torch.ones(ROWS, COLUMNS), torch.ones(ROWS, COLUMNS)
        self._numbers, self._results = torch.rand(ROWS * COLUMNS // 2), torch.empty(ROWS * COLUMNS // 2)

    def __call__(self) -> tuple[float, float]:
        """Seconds of one round of each: there and back, and once."""
        with torch.no_grad():
            return _median_s(self._hand_over), _median_s(self._compute)

    def _hand_over(self) -> None:
        torch.neg(self._here.flip(0), out=self._there)
        torch.neg(self._there.flip(0), out=self._here)

    def _compute(self) -> None:
        torch.exp(self._numbers, out=self._results)


def _median_s(run: Callable[[], None]) -> float:
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return median(times)


class QuietMachine:
    """`measure(measure)` runs it while the machine is at its best; `waited_s` is what waiting and repeating took. On
    a GPU, with more than MOST_THREADS threads, or without patience it only runs it."""

    def __init__(
        self,
        device: str = "cpu",
        *,
        look: Callable[[], Sequence[float]] | None = None,
        patience_s: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._patience_s = _patience_s() if patience_s is None else patience_s
        matters = device.partition(":")[0] == "cpu" and torch.get_num_threads() <= MOST_THREADS
        self._look = look or (Probes() if matters else None)
        self._sleep, self._clock = sleep, clock
        self._gave_up = False
        self._best = _NOTHING
        """Since this process began."""
        self._kept = _kept_in() if self._look else Path()
        self.waited_s = 0.0

    @property
    def warnings(self) -> list[str]:
        """What was not at its best, and what to do, as `harness.measure` has them."""
        if not self._gave_up:
            return []
        return ["the machine was seldom at its best: stop other programs, or raise STATSNET_PATIENCE_S"]

    def measure(self, measure: Callable[[], T]) -> T:
        """What `measure` gives, run again where the machine was disturbed at its end, ATTEMPTS times in all."""
        if self._look is None or self._patience_s <= 0:
            return measure()
        first = self._clock()
        for _ in range(ATTEMPTS):
            self._wait()
            begin = self._clock()
            found = measure()
            if self._patience_s <= 0 or self._at_best():
                break
        self.waited_s += begin - first
        return found

    def _wait(self) -> None:
        """Until the machine is at its best. Where that takes too long, what was seen meanwhile is its best: processes
        to come go by it, until one sees a better."""
        while not self._at_best_soon() and self._patience_s > 0:
            self._sleep(LOOK_AGAIN_S)
            self._patience_s -= LOOK_AGAIN_S + RAMP_S
            if self._patience_s <= 0:
                self._gave_up = True
                _keep(self._kept, self._best)

    def _at_best_soon(self) -> bool:
        end = self._clock() + RAMP_S
        while not (found := self._at_best()) and self._clock() < end:
            pass
        return found

    def _at_best(self) -> bool:
        assert self._look
        now = tuple(self._look())
        self._best = _lowest(self._best, now)
        known = _read(self._kept)
        if _lowest(known, now) != known:
            _keep(self._kept, _lowest(known, now))
        limits = zip(now, _lowest(known, self._best), Probes.limits, strict=True)
        return all(now_s < limit * best_s for now_s, best_s, limit in limits)


_NOTHING = (math.inf, math.inf)


def _patience_s() -> float:
    """Raises UsageError where the environment's is no number of seconds."""
    text = os.environ.get("STATSNET_PATIENCE_S", "")
    try:
        found = float(text or PATIENCE_S)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise UsageError(
            f"STATSNET_PATIENCE_S is '{text}', no number of seconds",
            hint="STATSNET_PATIENCE_S=0 measures without waiting for a quiet moment",
        )
    return found


def _lowest(a: Sequence[float], b: Sequence[float]) -> tuple[float, ...]:
    return tuple(map(min, a, b))


def _kept_in() -> Path:
    """Where the best of this machine is kept, for as many threads and the same vectors."""
    here = describe("cpu")
    deciding = [here[name] for name in ("cpu_model", "cores", "threads", "cpu_capability")]
    return cache_dir() / "quiet_machine" / hashlib.sha256(json.dumps(deciding).encode()).hexdigest()[:16]


def _read(path: Path) -> tuple[float, ...]:
    """Infinite where nothing is kept, or nothing that makes sense."""
    try:
        found = tuple(map(float, json.loads(path.read_text(encoding="utf-8"))))
    except (OSError, ValueError, TypeError):
        return _NOTHING
    return found if len(found) == len(_NOTHING) and all(s > 0 for s in found) else _NOTHING


def _keep(path: Path, best: Sequence[float]) -> None:
    """One that cannot be kept makes measuring less sure, nothing else."""
    with contextlib.suppress(OSError, StatsNetError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomically(path, list(best))
