"""Measures while the cores lie as near to each other as they can.

A hypervisor moves a virtual machine's cores about. Where a processor's cores share a last-level cache in groups, two
of them are in one group for a minute and in two for the next: what one thread wrote and another reads then takes four
times as long. Steps of two threads took 1.13 (BERT-base) to 1.31 (DLRM) of their time, those of one thread the same
(docs/fidelity.md). Times of both kinds in one comparison are a difference of no device.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

import torch

from statsnet.environment import cache_dir, describe

T = TypeVar("T")

MOST_CORES = 8
"""More do not share one last-level cache, or need not: where their threads lie is the user's choice."""

FAR = 2.5
"""Cores are far where handing over takes so many times the shortest time seen on this machine; 4 to 9 were found for
two groups, up to 1.7 for one."""

ATTEMPTS = 3
LOOK_AGAIN_S = 0.25
PATIENCE_S = 120.0
"""How long one process waits in all. Behind that, where the cores are is where they stay, as far as it knows."""

ROUNDS = 30
ROWS, COLUMNS = 512, 256
"""Half a megabyte, that the cores' own caches hold."""


class Handover:
    """Times how long an operator's threads take to read what the others wrote: each negates a matrix whose rows come in
    the reverse order, so that it reads what another thread has in its core's own cache."""

    def __init__(self) -> None:
        self._here, self._there = torch.ones(ROWS, COLUMNS), torch.ones(ROWS, COLUMNS)

    def __call__(self) -> float:
        """Seconds of one round, there and back."""
        times = []
        with torch.no_grad():
            for _ in range(ROUNDS):
                begin = time.perf_counter()
                torch.neg(self._here.flip(0), out=self._there)
                torch.neg(self._there.flip(0), out=self._here)
                times.append(time.perf_counter() - begin)
        return median(times)


class NearCores:
    """`undisturbed(measure)` runs it while the cores are near. Where no thread waits for another, on a GPU or with one
    thread, and on machines of more than MOST_CORES cores, it only runs it."""

    def __init__(
        self,
        device: str = "cpu",
        *,
        look: Callable[[], float] | None = None,
        patience_s: float = PATIENCE_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        matters = device.partition(":")[0] == "cpu" and 1 < torch.get_num_threads() <= MOST_CORES
        self._look = look or (Handover() if matters else None)
        self._patience_s = patience_s
        self._sleep = sleep
        self._lowest_s = math.inf
        """Since this process began."""
        self._kept = _kept_in() if self._look else Path()

    def undisturbed(self, measure: Callable[[], T]) -> T:
        """What `measure` gives, run again where the cores were moved meanwhile, ATTEMPTS times in all."""
        if self._look is None:
            return measure()
        found = None
        for _ in range(ATTEMPTS):
            self._wait()
            found = (measure(),)
            if self._near() or self._patience_s <= 0:
                break
        assert found
        return found[0]

    def _wait(self) -> None:
        """Until the cores are near. Where that takes too long, how they are now is how near they get: processes to come
        go by it, until one finds them nearer."""
        while not self._near() and self._patience_s > 0:
            self._sleep(LOOK_AGAIN_S)
            self._patience_s -= LOOK_AGAIN_S
            if self._patience_s <= 0:
                _keep(self._kept, self._lowest_s)

    def _near(self) -> bool:
        assert self._look
        now_s = self._look()
        self._lowest_s = min(self._lowest_s, now_s)
        shortest_s = _read(self._kept)
        if now_s < shortest_s:
            _keep(self._kept, now_s)
        return now_s < FAR * min(shortest_s, self._lowest_s)


def _kept_in() -> Path:
    """Where the shortest time of this machine is kept."""
    here = describe("cpu")
    deciding = [here[name] for name in ("cpu_model", "cores", "threads", "cpu_capability")]
    return cache_dir() / "handover" / hashlib.sha256(json.dumps(deciding).encode()).hexdigest()[:16]


def _read(path: Path) -> float:
    """Infinite where nothing is kept, or nothing that makes sense."""
    try:
        found = float(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return math.inf
    return found if found > 0 else math.inf


def _keep(path: Path, handover_s: float) -> None:
    """One that cannot be kept makes measuring less sure, nothing else."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(repr(handover_s), encoding="utf-8")
        partial.replace(path)
