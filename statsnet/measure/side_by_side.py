"""Several processes side by side, which run their steps in turn.

A machine with neighbours is a tenth slower for seconds or minutes at a time. Processes that run one after the other
meet different moments. Short windows, A B A B, meet the same ones: the ratio of two adjacent windows is many times more
certain than that of two processes (docs/method.md has figures).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from statsnet.environment import describe
from statsnet.errors import MeasurementError, StatsNetError, lacks_memory
from statsnet.measure.control import Failure, Job
from statsnet.measure.patience import PATIENCE
from statsnet.measure.process import MeasuringProcess, run_job
from statsnet.measure.task import Event
from statsnet.measure.timing_tasks import StepOutcome, TimingTask

FEWEST_TURNS = 5
"""A trimmed mean of fewer windows leaves none out, so a step that a neighbour delayed would count in full."""

TIME_S = 5.0
"""How long a process's windows take together if its task has no `min_time_s`; there are at least FEWEST_TURNS."""

PAUSE_S = 0.02
"""Pause between two turns, after the previous process's threads have gone to sleep (`turns.fall_asleep`)."""

FITS = 0.7
"""Share of the device's memory that processes side by side may take together."""

Outcome = StepOutcome | Failure
Outcomes = dict[int, Outcome]
"""By the index of the job."""


def side_by_side(jobs: Sequence[Job[StepOutcome]]) -> list[Outcome]:
    """Run the jobs in new processes that take turns; returns their results, in their order.

    Each result has `window_latency_s`, the median of each window; the n-th windows of all belong together. Jobs that
    cannot be told when to step (a replay), or that do not fit into memory together (by `peak_bytes`, or because one of
    them runs out of memory beside the others), run one after the other and have no windows. Raises what the tasks
    raise, with the label of the one that failed. If a task that `may_fail` fails, its result is a Failure, and the
    others go on.
    """
    one_by_one = len(jobs) == 1 or not all(isinstance(job.task, TimingTask) for job in jobs) or not _fit(jobs)
    outcomes = None if one_by_one else _in_turns(jobs)
    if outcomes is None:
        outcomes = {}
        for place, job in enumerate(jobs):
            with _tolerate_failure(job, place, outcomes), _named(job):
                outcomes[place] = run_job(job)
    return [outcomes[place] for place in range(len(jobs))]


def _in_turns(jobs: Sequence[Job[StepOutcome]]) -> Outcomes | None:
    """The results of jobs that take turns; None if memory was too short for all at once."""
    outcomes: Outcomes = {}
    try:
        _take_turns(jobs, outcomes)
    except StatsNetError as error:
        if lacks_memory(f"{error.message} {error.cause}"):
            return None
        raise
    failures = [outcome.why for outcome in outcomes.values() if isinstance(outcome, Failure)]
    return None if any(map(lacks_memory, failures)) else outcomes


@dataclass(frozen=True, slots=True)
class _Turn:
    """One of the processes, and its events."""

    job: Job[StepOutcome]
    process: MeasuringProcess[StepOutcome]
    events: Iterator[Event]

    def wait_for_turn(self) -> Event:
        """Wait until the process is ready, or has run its window."""
        with _named(self.job):
            for event in self.events:
                if event.ready or event.window_s is not None:
                    return event
            self.process.result()  # says why
            raise MeasurementError("a measuring process ended before its turn", hint="measure again")

    def end(self) -> StepOutcome:
        self.process.tell(None)
        with _named(self.job):
            for _ in self.events:
                pass
            return self.process.result()


def _take_turns(jobs: Sequence[Job[StepOutcome]], outcomes: Outcomes) -> None:
    """Puts the jobs' results into `outcomes`."""
    time_s = max(_windows_s(job.task) for job in jobs)
    with contextlib.ExitStack() as stack:
        turns: dict[int, _Turn] = {}
        for place, job in enumerate(jobs):  # the processes warm up one after the other
            process = stack.enter_context(MeasuringProcess(job.task, job.control, takes_turns=True))
            with _tolerate_failure(job, place, outcomes):
                turns[place] = _Turn(job, process, process.events())
                turns[place].wait_for_turn()
        rounds, begin, spent_s = 0, time.monotonic(), PATIENCE.spent_s
        while (
            rounds < FEWEST_TURNS
            or time.monotonic() - begin - (PATIENCE.spent_s - spent_s) < time_s * len(turns)  # waiting does not count
        ):
            turns = {place: turn for place, turn in turns.items() if place not in outcomes}
            for place, turn in turns.items():
                with _tolerate_failure(turn.job, place, outcomes):
                    turn.process.tell(str(PATIENCE.spent_s))  # others have spent some since it began
                    turn.wait_for_turn()
                time.sleep(PAUSE_S)
            rounds += 1
        for place, turn in turns.items():
            if place not in outcomes:
                with _tolerate_failure(turn.job, place, outcomes):
                    outcomes[place] = turn.end()


def _windows_s(task: object) -> float:
    assert isinstance(task, TimingTask)
    wanted_s = TIME_S if task.limits.min_time_s is None else task.limits.min_time_s
    return min(wanted_s, math.inf if task.limits.max_time_s is None else task.limits.max_time_s)


@contextlib.contextmanager
def _tolerate_failure(job: Job[StepOutcome], place: int, outcomes: Outcomes) -> Iterator[None]:
    """If a task that may fail fails, the failure is its result."""
    try:
        yield
    except StatsNetError as error:
        if not job.control.may_fail:
            raise
        said_last = (error.cause or "").strip().splitlines()[-1:]
        outcomes[place] = Failure(why=": ".join([error.message, *said_last]))


def _fit(jobs: Sequence[Job[StepOutcome]]) -> bool:
    peaks = [job.control.peak_bytes or 0 for job in jobs]
    device = getattr(jobs[0].task, "device", "cpu")
    return sum(peaks) <= FITS * describe(device)["memory_bytes"]


@contextlib.contextmanager
def _named(job: Job[StepOutcome]) -> Iterator[None]:
    """Puts the job's label into its error's message."""
    try:
        yield
    except StatsNetError as error:
        if not job.control.label:
            raise
        raise type(error)(f"{job.control.label}: {error.message}", cause=error.cause, hint=error.hint) from error
