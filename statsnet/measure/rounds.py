"""Several subjects measured in rounds, A B A B, so that a machine's drift affects all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from statsnet.errors import MeasurementError, StatsNetError
from statsnet.measure.control import Job
from statsnet.measure.process import run_job
from statsnet.progress import Progress, Report, silent


def run_in_rounds(
    jobs: Sequence[Job[Any]],
    rounds: int,
    *,
    report: Report = silent,
    run: Callable[[Job[Any]], Any] = run_job,
    clock: Callable[[], float] = time.monotonic,
) -> list[list[Any]]:
    """Run every job once per round, each time in a new process; returns the results by job.

    Stops at the first failure: MeasurementError, with the task's own cause.
    """
    results: list[list[Any]] = [[] for _ in jobs]
    spent_s: list[list[float]] = [[] for _ in jobs]
    for finished in range(rounds * len(jobs)):
        number, index = divmod(finished, len(jobs))
        job = jobs[index]
        stage = f"{job.label}, round {number + 1} of {rounds}"
        done = finished / (rounds * len(jobs))
        report(Progress(stage=stage, done=done, remaining_s=remaining_s(spent_s, rounds)))
        begin = clock()
        try:
            results[index].append(run(job))
        except StatsNetError as error:
            raise measuring_failed(job.label, error) from error
        spent_s[index].append(clock() - begin)
    return results


def measuring_failed(label: str, error: StatsNetError) -> MeasurementError:
    """The error of one of several subjects, with its name."""
    cause = "\n".join(part for part in (error.message, error.cause) if part)
    return MeasurementError(f"measuring {label} failed", cause=cause, hint=error.hint)


def remaining_s(spent_s: Sequence[Sequence[float]], rounds: int) -> float | None:
    """Seconds until all rounds are done. Each subject is expected to need its mean time so far, or the mean of all if
    it has not run yet. None before the first has run."""
    known = [seconds for times in spent_s for seconds in times]
    if not known:
        return None
    usual = sum(known) / len(known)
    return sum(max(rounds - len(times), 0) * (sum(times) / len(times) if times else usual) for times in spent_s)
