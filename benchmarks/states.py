"""How much longer does a step take in the different states of a virtual machine?

    python benchmarks/states.py TARGET ... [--time 60] [--threads N] [-o FILE]

A target is a workload's name or a proxy's folder. Each makes windows of inference steps for so many seconds. Before and
after each window the machine is probed (statsnet/measure/quiet_machine.py): it is at its best, or its cores are far
from each other, or it computes slowly. A window that begins in one state and ends in another is left out. Run nothing
else meanwhile.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, stdev
from typing import Any, TypeVar

import torch
from steps import step_of

from statsnet.environment import describe
from statsnet.measure.quiet_machine import FAR, SLOW, Probes
from statsnet.measure.timing import relaunch_with_allocator
from statsnet.signatures.canonical import write_json_atomically

WINDOW_S = 0.4
WARM_UPS = 5
BEST = "at its best"

T = TypeVar("T")
Look = tuple[float, float]
Window = tuple[Look, Look, float]
"""The probes before and after it, and its median step in seconds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("targets", nargs="+", metavar="TARGET")
    parser.add_argument("--time", type=float, default=60.0, help="seconds of each target (default: 60)")
    parser.add_argument("--threads", type=int, help="of the step; all are looked at (default: all)")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    relaunch_with_allocator()
    look = _with_threads(Probes(), torch.get_num_threads())
    threads = options.threads or torch.get_num_threads()
    windows_of = {t: _windows(_with_threads(step_of(t), threads), look, options.time) for t in options.targets}
    looks = [seen for windows in windows_of.values() for window in windows for seen in window[:2]]
    best = (min(a for a, _ in looks), min(b for _, b in looks))
    rows = [_row(Path(target).name, windows, best) for target, windows in windows_of.items()]
    handing_over, computing = (1e6 * s for s in best)
    print(f"at best {handing_over:.0f} µs to hand over, {computing:.0f} to compute; steps of {threads} threads")
    for row in rows:
        print(_line(row))
    if options.output:
        report = {"environment": describe("cpu"), "step_threads": threads, "best_s": best, "rows": rows}
        write_json_atomically(options.output, report)


def _with_threads(run: Callable[[], T], threads: int) -> Callable[[], T]:
    def wrapped() -> T:
        torch.set_num_threads(threads)
        return run()

    return wrapped


def _windows(step: Callable[[], Any], look: Callable[[], Look], time_s: float) -> list[Window]:
    for _ in range(WARM_UPS):
        step()
    measured: list[Window] = []
    end = time.perf_counter() + time_s
    before = look()
    while time.perf_counter() < end:
        times: list[float] = []
        while sum(times) < WINDOW_S:
            begin = time.perf_counter()
            step()
            times.append(time.perf_counter() - begin)
        behind = look()
        measured.append((before, behind, median(times)))
        before = behind
    return measured


def _state(seen: Look, best: Look) -> str:
    far, slow = (s >= limit * best_s for s, best_s, limit in zip(seen, best, (FAR, SLOW), strict=True))
    return "far" if far else "slow" if slow else BEST


def _row(name: str, windows: list[Window], best: Look) -> dict[str, Any]:
    steps: dict[str, list[float]] = {BEST: [], "far": [], "slow": []}
    for before, behind, step_s in windows:
        if (state := _state(before, best)) == _state(behind, best):
            steps[state].append(step_s)
    return {"target": name, "step_s": steps, "left_out": len(windows) - sum(map(len, steps.values()))}


def _line(row: dict[str, Any]) -> str:
    parts = [f"{row['target']:44}"]
    best_s = row["step_s"][BEST]
    for state, times in row["step_s"].items():
        if len(times) > 1:
            ratio = f" ({median(times) / median(best_s):.2f})" if state != BEST and best_s else ""
            scatter = f"CoV {stdev(times) / median(times):.1%}, {len(times)} windows"
            parts.append(f"{state} {1e3 * median(times):.2f} ms{ratio}, {scatter}")
        else:
            parts.append(f"{state}: {len(times)} windows")
    return "; ".join(parts)


if __name__ == "__main__":
    main()
