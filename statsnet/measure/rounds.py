"""Several subjects measured in rounds, A B A B, so that a machine's drift affects all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from statsnet.errors import MeasurementError, ModelError, ProcessError, StatsNetError, UsageError, WorkloadError
from statsnet.measure.control import Job
from statsnet.measure.engine import Pool
from statsnet.measure.errand import RunJobs
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
        left_s = remaining_s(spent_s, [rounds - len(times) for times in spent_s])
        report(Progress(stage=stage, done=done, remaining_s=left_s))
        begin = clock()
        try:
            results[index].append(run(job))
        except StatsNetError as error:
            raise measuring_failed(job.label, error) from error
        spent_s[index].append(clock() - begin)
    return results


@dataclass(frozen=True, kw_only=True)
class OneRound(RunJobs[tuple[Any, ...]]):
    """A round on one machine: its results belong together as no two machines' do."""

    def run(self, report: Report = silent) -> tuple[Any, ...]:
        with self.here() as jobs:
            return tuple(result for (result,) in run_in_rounds(jobs, 1, report=report))

    @property
    def result_type(self) -> Any:
        return tuple[tuple(job.result_type for job in self.jobs)]  # type: ignore[misc]

    def environments(self, result: tuple[Any, ...]) -> Sequence[Mapping[str, Any]]:
        return [each for job, one in zip(self.jobs, result, strict=True) for each in job.environments(one)]


def run_on_pool(pool: Pool, jobs: Sequence[Job[Any]], rounds: int, *, report: Report) -> list[list[Any]]:
    """As `run_in_rounds`, each round on one place."""
    errand = OneRound.of(jobs)
    errands = [(f"round {number + 1} of {rounds}", errand) for number in range(rounds)]
    return [list(row) for row in zip(*pool.results(errands, report=report), strict=True)]


def measuring_failed(label: str, error: StatsNetError) -> MeasurementError:
    """The error of one of several subjects, with its name. It stays one of a process, or of what was measured."""
    cause = "\n".join(part for part in (error.message, error.cause) if part)
    kind = MeasurementError
    if isinstance(error, ProcessError):
        kind = ProcessError
    elif isinstance(error, UsageError | WorkloadError | ModelError):
        kind = ModelError
    return kind(f"measuring {label} failed", cause=cause, hint=error.hint)


def remaining_s(spent_s: Sequence[Sequence[float]], runs_left: Sequence[int]) -> float | None:
    """Seconds that each subject's remaining runs will take together. A run is expected to need the subject's mean time
    so far, or the mean of all others if it has not run yet. None before the first has run."""
    known = [mean(times) for times in spent_s if times]
    if not known:
        return None
    usual = [mean(times) if times else mean(known) for times in spent_s]
    return sum(left * each for left, each in zip(runs_left, usual, strict=True))
