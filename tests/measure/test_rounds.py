from __future__ import annotations

from typing import Any

import pytest

from statsnet.errors import MeasurementError, WorkloadError
from statsnet.measure.rounds import interleave


class FakeRuns:
    """Runs that take the seconds that their job says, on a clock of their own."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.order: list[str] = []

    def run(self, job: dict[str, Any], *, timeout_s: float | None) -> dict[str, Any]:
        if job.get("fails") and len(self.order) >= job["fails"]:
            raise WorkloadError("it broke", cause="a bad weld", hint="weld it again")
        self.order.append(job["label"])
        self.now_s += job["seconds"]
        return {"turn": len(self.order), "timeout_s": timeout_s}

    def clock(self) -> float:
        return self.now_s


def test_subjects_take_turns() -> None:
    runs = FakeRuns()
    subjects = [{"label": "A", "seconds": 1.0}, {"label": "B", "seconds": 3.0}]
    found = interleave(
        [{"kind": "x", **s} for s in subjects], 3, timeout_s=9.0, run=runs.run, clock=runs.clock
    )
    assert runs.order == ["A", "B", "A", "B", "A", "B"]
    assert [[r["turn"] for r in results] for results in found] == [[1, 3, 5], [2, 4, 6]]
    assert found[0][0]["timeout_s"] == 9.0


def test_the_remaining_time_is_estimated_per_subject() -> None:
    runs = FakeRuns()
    events: list[dict[str, Any]] = []
    subjects = [{"kind": "x", "label": "A", "seconds": 1.0}, {"kind": "x", "label": "B", "seconds": 3.0}]
    interleave(subjects, 2, on_progress=events.append, run=runs.run, clock=runs.clock)
    assert [event["remaining_s"] for event in events] == [None, 3.0, 4.0, 3.0]
    assert [event["done"] for event in events] == [0.0, 0.25, 0.5, 0.75]
    assert events[2]["stage"] == "A, round 2 of 2"


@pytest.mark.parametrize(("after", "runs_each"), [(1, 2), (3, 3), (9, 4)])
def test_rounds_go_on_until_they_are_enough(after: int, runs_each: int) -> None:
    """At least 2 rounds, at most 4."""
    runs = FakeRuns()
    subjects = [{"kind": "x", "label": "A", "seconds": 1.0}, {"kind": "x", "label": "B", "seconds": 3.0}]
    found = interleave(
        subjects, 2, most=4, enough=lambda results: len(results[1]) >= after, run=runs.run, clock=runs.clock
    )
    assert [len(results) for results in found] == [runs_each] * 2


def test_a_failed_run_ends_it_and_is_never_a_number() -> None:
    runs = FakeRuns()
    subjects = [
        {"kind": "x", "label": "A", "seconds": 1.0},
        {"kind": "x", "label": "B", "seconds": 1.0, "fails": 3},
    ]
    with pytest.raises(MeasurementError) as failed:
        interleave(subjects, 3, run=runs.run, clock=runs.clock)
    error = failed.value
    assert (error.message, error.cause) == ("measuring B failed", "it broke\na bad weld")
    assert error.hint == "weld it again"
    assert runs.order == ["A", "B", "A"]
