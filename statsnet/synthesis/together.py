"""A finished network in several processes: its collectives are placed, measured, and placed anew if they miss."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from statsnet.proxy.spec import pinned, source_of
from statsnet.signatures.documents import Characteristic, ProxySpec
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.target import Target
from statsnet.synthesis.bench.bench import Bench, Unmeasured
from statsnet.synthesis.collectives import (
    OVERLAP,
    OVERLAP_BAR,
    WAITING,
    communication_rows,
    placed_collectives,
)

MOST_TRIES, TRYING_S = 4, 60.0
"""At most so many networks are measured, each if those before took less than so many seconds in all."""

LARGEST_CHANGE = 3.0
"""What is computed beside a collective is made at most so many times longer or shorter at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """A network with its collectives, the rows of fit.json about them, and why it was not measured in several
    processes, if it was not."""

    spec: ProxySpec
    rows: tuple[Characteristic, ...]
    unmeasured: str | None = None

    @property
    def overlap(self) -> Characteristic | None:
        return next((row for row in self.rows if row.name == OVERLAP), None)

    @property
    def worst_miss(self) -> float:
        """How many times the bar its waiting or its overlap is off, whichever is more; 0 if they were not measured."""
        shares = [row for row in self.rows if row.name in (WAITING, OVERLAP)]
        errors = [abs(row.missed_by) / row.bar for row in shares if row.missed_by is not None and row.bar]
        return max(errors, default=0.0)


def with_collectives(spec: ProxySpec, whole: Target, step_s: float, bench: Bench, *, tries: int) -> Together:
    """The network of a spec with collectives that overlap with computation as those of the `whole` target do. `step_s`
    is how long its step should take. A collective may take longer or shorter in it than in the suite, so the first try
    may compute too much beside it, or too little. Up to `tries` networks are measured (MOST_TRIES at most), and the
    nearest is kept."""
    begin_s, beside = time.monotonic(), 1.0
    best = tried = _tried(spec, whole, step_s, bench, beside=beside)
    for _ in range(min(tries, MOST_TRIES) - 1):
        change = _change(tried.overlap)
        if change is None or time.monotonic() - begin_s > TRYING_S or bench.setup.deadline.passed:
            break
        beside *= change
        again = _tried(spec, whole, step_s, bench, beside=beside)
        if again.unmeasured or again.spec.id == tried.spec.id:
            break
        tried = again
        best = min(best, tried, key=lambda t: t.worst_miss)
    return best


def _tried(spec: ProxySpec, whole: Target, step_s: float, bench: Bench, *, beside: float) -> Together:
    placed = placed_collectives(whole, step_s, beside=beside)
    made = pinned(replace(spec, collectives=placed)) if placed else spec
    measured = _measured(made, whole, bench)
    known = measured if isinstance(measured, Measurement) else None
    return Together(
        spec=made,
        rows=communication_rows(whole, placed, step_s, known),
        unmeasured=measured.why if isinstance(measured, Unmeasured) else None,
    )


def _measured(spec: ProxySpec, whole: Target, bench: Bench) -> Measurement | Unmeasured | None:
    """In as many processes as the largest member; None without collectives."""
    known = [m.measurement.collectives for m in whole.members]
    processes = max((c.processes for c in known if c is not None), default=1)
    return bench.measure_together(source_of(spec), processes) if spec.collectives and processes > 1 else None


def _change(overlap: Characteristic | None) -> float | None:
    """By what to multiply what is computed beside collectives; None if that is right, or nothing can be told."""
    if overlap is None or overlap.achieved is None or not overlap.target:
        return None
    if abs(overlap.achieved - overlap.target) <= OVERLAP_BAR:
        return None
    wanted = overlap.target / overlap.achieved if overlap.achieved > 0 else LARGEST_CHANGE
    return min(max(wanted, 1 / LARGEST_CHANGE), LARGEST_CHANGE)
