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
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import torch

from statsnet.environment import cache_dir, describe
from statsnet.errors import StatsNetError
from statsnet.measure.patience import PATIENCE, Patience, patience_limit_s
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
RESIGNED_S = 60.0
"""Waiting in vain moves the best state known towards the present one, by half in about 40 s (on a logarithm). So a
machine that has changed for good, as after a move to another host, is not waited for in every command."""

ROUNDS = 20
ROWS, COLUMNS = 512, 256
"""Half a megabyte, which fits into the cores' own caches. The computing probe uses half as many numbers."""


class Probes:
    """Two small operators whose times tell the machine's state. In one, threads read what others wrote: a matrix is
    negated with its rows in reverse order. The other computes exponentials from each core's own cache."""

    limits = (FAR, SLOW)

    def __init__(self) -> None:
        like: Any = {"dtype": torch.float32, "device": "cpu"}  # a model's file may have set others as usual
        self._here, self._there = torch.ones(ROWS, COLUMNS, **like), torch.ones(ROWS, COLUMNS, **like)
        self._numbers, self._results = (make(ROWS * COLUMNS // 2, **like) for make in (torch.rand, torch.empty))

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
    """`measure(function)` runs a function while the machine is at its best, as far as `patience` allows. On a GPU, with
    more than MOST_THREADS threads, or with STATSNET_PATIENCE_S=0, it runs the function at once."""

    def __init__(
        self,
        device: str = "cpu",
        *,
        look: Callable[[], Sequence[float]] | None = None,
        patience: Patience = PATIENCE,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        matters = device.partition(":")[0] == "cpu" and torch.get_num_threads() <= MOST_THREADS
        self._look = look or (Probes() if matters and patience_limit_s() != 0 else None)
        self._patience, self._sleep, self._clock = patience, sleep, clock
        self._best_file = _best_file() if self._look else Path()
        self._best: tuple[float, ...] = _UNKNOWN
        self._now: tuple[float, ...] = _UNKNOWN
        self._measured = self._disturbed = 0

    @property
    def warnings(self) -> list[str]:
        """What was not at its best, and what to do about it, as `timing.measure` puts it."""
        if 2 * self._disturbed <= self._measured:
            return []
        return [
            "the machine was seldom at its best: stop other programs, or allow more waiting with STATSNET_PATIENCE_S"
        ]

    def measure(self, measure: Callable[[], T]) -> T:
        """The result of `measure`, which runs again if the machine is disturbed at its end: up to ATTEMPTS times, and
        if as much time as it took may still be spent."""
        if self._look is None:
            return measure()
        for attempt in range(ATTEMPTS):
            at_best = self._wait()
            begin = self._clock()
            result = measure()
            took_s = self._clock() - begin
            may_repeat = at_best and attempt + 1 < ATTEMPTS and self._left_s() >= took_s
            at_best = at_best and self._at_best()
            if at_best or not may_repeat:
                break
            self._patience.spend(took_s)
        self._measured += 1
        self._disturbed += not at_best
        self._patience.count(at_best=at_best)
        return result

    def _left_s(self) -> float:
        return self._patience.left_s(self._clock())

    def _wait(self) -> bool:
        """Wait until the machine is at its best, or until patience is too short to look for RAMP_S; says which."""
        at_best = self._at_best()
        while not at_best and (left_s := self._left_s()) >= RAMP_S:
            begin = self._clock()
            at_best = self._at_best_soon()
            if not at_best and left_s >= RAMP_S + LOOK_AGAIN_S:
                self._sleep(LOOK_AGAIN_S)
                at_best = self._at_best()
            spent_s = self._clock() - begin
            self._patience.spend(spent_s)
            if not at_best:
                self._resign(spent_s)
        return at_best

    def _at_best_soon(self) -> bool:
        end = self._clock() + RAMP_S
        while not (at_best := self._at_best()) and self._clock() < end:
            pass
        return at_best

    def _at_best(self) -> bool:
        assert self._look
        self._now = tuple(self._look())
        known = self._known()
        self._best = tuple(map(min, known, self._now))
        if self._best != known:
            _write_best(self._best_file, self._best)
        limits = zip(self._now, self._best, Probes.limits, strict=True)
        return all(now_s < limit * best_s for now_s, best_s, limit in limits)

    def _known(self) -> tuple[float, ...]:
        """The best state that any process has seen here; without a file, that this one has seen."""
        return _read_best(self._best_file) or self._best

    def _resign(self, spent_s: float) -> None:
        """After so much more waiting in vain, expect a little less."""
        share = min(spent_s / RESIGNED_S, 1.0)
        pairs = zip(self._known(), self._now, strict=True)
        self._best = tuple(known_s * max(now_s / known_s, 1.0) ** share for known_s, now_s in pairs)
        _write_best(self._best_file, self._best)


_UNKNOWN = (math.inf, math.inf)


def _best_file() -> Path:
    """The file with the shortest times of this machine, with this number of threads and these vector instructions."""
    here = describe("cpu")
    deciding = [here[name] for name in ("cpu_model", "cores", "threads", "cpu_capability")]
    return cache_dir() / "quiet_machine" / hashlib.sha256(json.dumps(deciding).encode()).hexdigest()[:16]


def _read_best(path: Path) -> tuple[float, ...] | None:
    """None if the file is missing or makes no sense."""
    try:
        times_s = tuple(map(float, json.loads(path.read_text(encoding="utf-8"))))
    except (OSError, ValueError, TypeError):
        return None
    return times_s if len(times_s) == len(_UNKNOWN) and all(s > 0 for s in times_s) else None


def _write_best(path: Path, best: Sequence[float]) -> None:
    """If the file cannot be written, measuring is only less certain."""
    with contextlib.suppress(OSError, StatsNetError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomically(path, list(best))
