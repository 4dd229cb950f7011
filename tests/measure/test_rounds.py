from __future__ import annotations

from typing import Any

import pytest
from fake_tasks import Doubling

from statsnet.errors import MeasurementError, WorkloadError
from statsnet.measure.control import Control, Job
from statsnet.measure.rounds import run_in_rounds
from statsnet.progress import Progress

A, B = (Job(Doubling(question=seconds), Control(label=label)) for label, seconds in (("A", 1.0), ("B", 3.0)))


class FakeRuns:
    """Runs that take as many seconds as their task's question, on a clock of their own; the n-th can fail."""

    def __init__(self, fails: int | None = None) -> None:
        self.now_s = 0.0
        self.order: list[str] = []
        self.fails = fails

    def run(self, job: Job[Any]) -> int:
        if len(self.order) == self.fails:
            raise WorkloadError("it broke", cause="a bad weld", hint="weld it again")
        self.order.append(job.label)
        self.now_s += job.task.question  # type: ignore[attr-defined]
        return len(self.order)

    def clock(self) -> float:
        return self.now_s


def test_subjects_take_turns() -> None:
    runs = FakeRuns()
    results = run_in_rounds([A, B], 3, run=runs.run, clock=runs.clock)
    assert runs.order == ["A", "B", "A", "B", "A", "B"]
    assert results == [[1, 3, 5], [2, 4, 6]]


def test_the_remaining_time_is_estimated_per_subject() -> None:
    runs = FakeRuns()
    reported: list[Progress] = []
    run_in_rounds([A, B], 2, report=reported.append, run=runs.run, clock=runs.clock)
    assert [progress.remaining_s for progress in reported] == [None, 3.0, 4.0, 3.0]
    assert [progress.done for progress in reported] == [0.0, 0.25, 0.5, 0.75]
    assert reported[2].stage == "A, round 2 of 2"


def test_a_failed_run_ends_it_and_is_never_a_number() -> None:
    runs = FakeRuns(fails=3)
    with pytest.raises(MeasurementError) as failed:
        run_in_rounds([A, B], 3, run=runs.run, clock=runs.clock)
    error = failed.value
    assert (error.message, error.cause) == ("measuring B failed", "it broke\na bad weld")
    assert error.hint == "weld it again"
    assert runs.order == ["A", "B", "A"]
