"""How much longer does a step take while a virtual machine is slow?

    python benchmarks/diagnostics/machine_states.py TARGET ... [--time 60] [--threads N] [-o FILE]
    python benchmarks/diagnostics/machine_states.py --kept FILE

A target is a workload's name or a proxy's folder. Each makes windows of inference steps for so many seconds. Before and
after each window the machine is probed (statsnet/measure/quiet_machine.py): it is at its best, or its cores are far
from each other, or it computes slowly. A window that begins in one state and ends in another is left out. Run nothing
else meanwhile.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import torch

from benchmarks import csv_tables
from benchmarks.console import parser, start
from benchmarks.diagnostics.inference_step import step_of
from statsnet.measure.quiet_machine import FAR, SLOW, Probes
from statsnet.measure.timing import relaunch_with_allocator

WINDOW_S = 0.4
WARM_UPS = 5
STATES = ("at its best", "far", "slow")

T = TypeVar("T")
Probed = tuple[float, float]
"""Seconds to hand a value from core to core, and to compute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The median step of a window, and the one of STATES that the machine was in before and after it."""

    target: str
    threads: int
    state: str
    step_s: float


def main() -> None:
    options = parser(__doc__)
    options.add_argument("targets", nargs="*", metavar="TARGET")
    options.add_argument("--kept", type=Path, metavar="FILE", help="print this table, measure nothing")
    options.add_argument("--time", type=float, default=60.0, help="seconds of each target (default: 60)")
    options.add_argument("--threads", type=int, help="of the step; all are probed (default: all)")
    options.add_argument("-o", "--output", type=Path, default=Path("build/machine_states/machine_states.csv"))
    chosen = options.parse_args()
    if bool(chosen.kept) == bool(chosen.targets):
        options.error("give targets, or --kept FILE")
    if chosen.kept:
        windows = csv_tables.read(chosen.kept, Window)
    else:
        relaunch_with_allocator()
        windows = _measured(chosen.targets, chosen.threads or torch.get_num_threads(), chosen.time)
        csv_tables.write(chosen.output, Window, windows)
    print(summed_up(windows))


def _measured(targets: Sequence[str], threads: int, time_s: float) -> list[Window]:
    probe = _with_threads(Probes(), torch.get_num_threads())
    steps = {target: _steps(_with_threads(step_of(target), threads), probe, time_s) for target in targets}
    probed = [seen for of_target in steps.values() for before, after, _ in of_target for seen in (before, after)]
    best = (min(a for a, _ in probed), min(b for _, b in probed))
    return [
        Window(target=Path(target).name, threads=threads, state=_state(before, best), step_s=step_s)
        for target, of_target in steps.items()
        for before, after, step_s in of_target
        if _state(before, best) == _state(after, best)
    ]


def _with_threads(run: Callable[[], T], threads: int) -> Callable[[], T]:
    def wrapped() -> T:
        torch.set_num_threads(threads)
        return run()

    return wrapped


def _steps(step: Callable[[], Any], probe: Callable[[], Probed], time_s: float) -> list[tuple[Probed, Probed, float]]:
    """Of each window: what was probed before and after it, and its median step in seconds."""
    for _ in range(WARM_UPS):
        step()
    measured = []
    end = time.perf_counter() + time_s
    before = probe()
    while time.perf_counter() < end:
        times: list[float] = []
        while sum(times) < WINDOW_S:
            begin = time.perf_counter()
            step()
            times.append(time.perf_counter() - begin)
        after = probe()
        measured.append((before, after, median(times)))
        before = after
    return measured


def _state(seen: Probed, best: Probed) -> str:
    far, slow = (s >= limit * best_s for s, best_s, limit in zip(seen, best, (FAR, SLOW), strict=True))
    return STATES[1 if far else 2 if slow else 0]


def summed_up(windows: Sequence[Window]) -> str:
    """A line for each target, number of threads and state."""
    step_s: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for window in windows:
        step_s[window.target, window.threads][window.state].append(window.step_s)
    lines = []
    for (target, threads), of_target in step_s.items():
        best = of_target.get(STATES[0])
        for state, times in sorted(of_target.items()):
            ratio = f" ({median(times) / median(best):.2f} of the best)" if best else ""
            took = f"{1e3 * median(times):.2f} ms{ratio}, {len(times)} windows"
            lines.append(f"{target}, {threads} threads, {state}: {took}")
    return "\n".join(lines)


if __name__ == "__main__":
    start(main)
