"""How fast the machine is at the moment: the step of a small network, timed in between what is measured.

A virtual machine's speed changes by 10 to 40 % from one quarter of an hour to the next. Measurements of different hours
can be compared if the same network was timed in both.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from statsnet.measure.idle_memory import IdleMemory
from statsnet.measure.network_file import load_network
from statsnet.measure.quiet_machine import QuietMachine
from statsnet.measure.task import Context, Task
from statsnet.measure.timing import time_once, warm_up
from statsnet.signatures.statistics import faster_half

LOOK_S = 0.1
FEWEST_LOOKS = 3
BETWEEN_LOOKS_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The undisturbed step of the reference network; and the time to reach a page of memory that nobody used meanwhile,
    where that is known."""

    latency_s: float
    page_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class TimeReferenceNetwork(Task[Looked]):
    """Times the network in a folder by looks like those beside other measurements."""

    folder: str
    device: str = "cpu"
    time_s: float = 1.0

    def run(self, context: Context) -> Looked:
        network, memory = ReferenceNetwork(self.folder, self.device), IdleMemory(self.device)
        for _ in network.looks(self.time_s):
            pass
        return Looked(latency_s=network.undisturbed_s, page_s=memory.page_s())


class ReferenceNetwork:
    """The network in a folder; `latency_s` has the median of each look, `work` names what it does."""

    def __init__(self, folder: str | Path, device: str = "cpu") -> None:
        network = load_network(folder)
        self.work: str = network.SPEC_ID
        step = network.make_step(network.build(device), device)
        self._timed = partial(time_once, step, device, time.perf_counter)
        self._quiet_machine = QuietMachine(device)
        self.latency_s: list[float] = []
        self._looked_at = -math.inf
        self._timed()  # what a first step does once is no part of a look

    @property
    def undisturbed_s(self) -> float:
        """Its step in the faster half of the looks."""
        return median(faster_half(self.latency_s))

    def warm_up(self) -> None:
        """For looks that come at once: whoever has other work to do before the first one needs none."""
        warm_up(self._timed, window_s=LOOK_S, limit_s=10 * LOOK_S)

    def look(self) -> None:
        """Time it for LOOK_S, at least one step."""
        self.latency_s.append(median(self._quiet_machine.measure(self._window)))
        self._looked_at = time.perf_counter()

    def look_now_and_then(self) -> None:
        """Time it if the last look was BETWEEN_LOOKS_S ago."""
        if time.perf_counter() - self._looked_at >= BETWEEN_LOOKS_S:
            self.look()

    def _window(self) -> list[float]:
        self._timed()  # refills the caches that others have used
        window = [self._timed()]
        while sum(window) < LOOK_S:
            window.append(self._timed())
        return window

    def looks(self, time_s: float) -> Iterator[None]:
        """Yields after each look, for `time_s` in all, including what the caller does in between; at least
        FEWEST_LOOKS."""
        self.warm_up()
        end = time.perf_counter() + time_s
        while len(self.latency_s) < FEWEST_LOOKS or time.perf_counter() < end:
            self.look()
            yield
