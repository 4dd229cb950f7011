"""Measures while the machine is at its best: cores near to each other, and none slowed down by a neighbour.

A hypervisor moves a virtual machine's cores about. On many processors, groups of cores share a last-level cache. Two
cores can be in one group for a minute and in two for the next ten seconds; reading what the other thread wrote then
takes at least four times as long. Or computing is slower for a while, because a core has slept or has a neighbour. If a
comparison mixes such states, it shows differences that belong to no device (docs/method.md has figures).
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
"""More threads may not share one last-level cache anyway: their placement is the user's choice."""

FAR, SLOW = 2.5, 1.15
"""Handing data over, or computing, is disturbed if it takes this many times the shortest time seen here. Measured
for handing over: 4 to 9 (cores in two groups), up to 1.7 (in one). For computing: 1.00 to 1.07 as a rule, else 1.3 to
1.9."""

ATTEMPTS = 3
RAMP_S = 0.1
"""A core that has slept needs up to this long to reach its full speed."""

LOOK_AGAIN_S = 0.25
PATIENCE_S = 60.0
"""How long one process waits in all, unless STATSNET_PATIENCE_S is set. After that, it accepts the best state seen."""

ROUNDS = 20
ROWS, COLUMNS = 512, 256
"""Half a megabyte, which fits into the cores' own caches. The computing probe uses half as many numbers."""


class Probes:
    """Two small operators whose times tell the machine's state. In one, threads read what others wrote: a matrix is
    negated with its rows in reverse order. The other computes exponentials from each core's own cache."""

    limits = (FAR, SLOW)

    def __init__(self) -> None:
        self._here, self._there = torch.ones(ROWS, COLUMNS), torch.ones(ROWS, COLUMNS)
        self._numbers, self._results = torch.rand(ROWS * COLUMNS // 2), torch.empty(ROWS * COLUMNS // 2)

    def __call__(self) -> tuple[float, float]:
        """Seconds of one round of each: handing over there and back; computing once."""
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
    """`measure(function)` runs a function while the machine is at its best; `waited_s` is the time spent waiting and
    repeating. On a GPU, with more than MOST_THREADS threads, or without patience, it runs the function at once."""

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
        self._best: tuple[float, ...] = _UNKNOWN
        """Since this process began."""
        self._best_file = _best_file() if self._look else Path()
        self.waited_s = 0.0

    @property
    def warnings(self) -> list[str]:
        """What was not at its best, and what to do about it, as `timing.measure` puts it."""
        if not self._gave_up:
            return []
        return ["the machine was seldom at its best: stop other programs, or raise STATSNET_PATIENCE_S"]

    def measure(self, measure: Callable[[], T]) -> T:
        """The result of `measure`, which runs again if the machine is disturbed at its end: up to ATTEMPTS times."""
        if self._look is None or self._patience_s <= 0:
            return measure()
        first = self._clock()
        for _ in range(ATTEMPTS):
            self._wait()
            begin = self._clock()
            result = measure()
            if self._patience_s <= 0 or self._at_best():
                break
        self.waited_s += begin - first
        return result

    def _wait(self) -> None:
        """Wait until the machine is at its best. If that takes too long, the best state seen meanwhile becomes the
        reference for later processes, until one of them sees a better state."""
        while not self._at_best_soon() and self._patience_s > 0:
            self._sleep(LOOK_AGAIN_S)
            self._patience_s -= LOOK_AGAIN_S + RAMP_S
            if self._patience_s <= 0:
                self._gave_up = True
                _write_best(self._best_file, self._best)

    def _at_best_soon(self) -> bool:
        end = self._clock() + RAMP_S
        while not (at_best := self._at_best()) and self._clock() < end:
            pass
        return at_best

    def _at_best(self) -> bool:
        assert self._look
        now = tuple(self._look())
        self._best = _lowest(self._best, now)
        known = _read_best(self._best_file)
        if _lowest(known, now) != known:
            _write_best(self._best_file, _lowest(known, now))
        limits = zip(now, _lowest(known, self._best), Probes.limits, strict=True)
        return all(now_s < limit * best_s for now_s, best_s, limit in limits)


_UNKNOWN = (math.inf, math.inf)


def _patience_s() -> float:
    """Raises UsageError if STATSNET_PATIENCE_S is no number of seconds."""
    text = os.environ.get("STATSNET_PATIENCE_S", "")
    try:
        seconds = float(text or PATIENCE_S)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise UsageError(
            f"STATSNET_PATIENCE_S is '{text}', no number of seconds",
            hint="STATSNET_PATIENCE_S=0 measures without waiting for a quiet moment",
        )
    return seconds


def _lowest(a: Sequence[float], b: Sequence[float]) -> tuple[float, ...]:
    return tuple(map(min, a, b))


def _best_file() -> Path:
    """The file with the shortest times of this machine, with this number of threads and these vector instructions."""
    here = describe("cpu")
    deciding = [here[name] for name in ("cpu_model", "cores", "threads", "cpu_capability")]
    return cache_dir() / "quiet_machine" / hashlib.sha256(json.dumps(deciding).encode()).hexdigest()[:16]


def _read_best(path: Path) -> tuple[float, ...]:
    """Infinite times if the file is missing or makes no sense."""
    try:
        times_s = tuple(map(float, json.loads(path.read_text(encoding="utf-8"))))
    except (OSError, ValueError, TypeError):
        return _UNKNOWN
    return times_s if len(times_s) == len(_UNKNOWN) and all(s > 0 for s in times_s) else _UNKNOWN


def _write_best(path: Path, best: Sequence[float]) -> None:
    """If the file cannot be written, measuring is only less certain."""
    with contextlib.suppress(OSError, StatsNetError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomically(path, list(best))
