"""How quiet the machine is right now: a small operator, timed for a moment in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass

from statsnet.measure.control import Control
from statsnet.measure.idle_memory import IdleMemory
from statsnet.measure.process import run
from statsnet.measure.task import Context, Task
from statsnet.measure.timing import measure, precision
from statsnet.progress import Report
from statsnet.signatures.intervals import process_median_s
from statsnet.signatures.statistics import interquartile_share
from statsnet.signatures.timing import Timing

SIDE = 256
"""Rows and columns of both matrices: enough work for all threads, and little enough for the caches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The runs of one operator: median time in seconds, the interquartile range as a share of it, half the width of the
    median's 95 % interval as another, and what disturbed them. `page_s` is the time to reach a page of memory that
    nobody used meanwhile (measure/idle_memory.py)."""

    median_s: float
    spread: float
    precision: float
    steps: int
    warnings: tuple[str, ...]
    page_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """An operator's times, and that of a page: see Noise."""

    timing: Timing
    page_s: float | None


@dataclass(frozen=True, kw_only=True)
class TimeOperator(Task[Timed]):
    """Times a product of two matrices on the CPU, without waiting for a quiet moment."""

    time_s: float

    def run(self, context: Context) -> Timed:
        import torch

        idle_memory = IdleMemory()
        a, b, out = (torch.ones(SIDE, SIDE) for _ in range(3))
        with torch.no_grad():
            measured = measure(
                lambda: torch.mm(a, b, out=out), min_runs=100, min_time_s=self.time_s, max_time_s=self.time_s
            )
        timing = Timing(
            latency_s=tuple(measured["latency_s"][:100_000]),
            stable=measured["stable"],
            warnings=tuple(measured["warnings"]),
        )
        return Timed(timing=timing, page_s=idle_memory.page_s())


def noise_now(time_s: float, *, report: Report) -> Noise:
    """Raises MeasurementError if the process fails."""
    timed = run(TimeOperator(time_s=time_s), Control(label="the machine's noise"), report=report)
    timing = timed.timing
    times = list(timing.latency_s)
    return Noise(
        median_s=process_median_s(timing),
        spread=interquartile_share(times) or 0.0,
        precision=precision(times),
        steps=len(times),
        warnings=tuple(w for w in timing.warnings if "--max-time" not in w and "--min-time" not in w),
        page_s=timed.page_s,
    )
