"""Processes that begin at the same moment."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_tasks import Meeting

from statsnet.errors import WorkloadError
from statsnet.measure.control import Job
from statsnet.measure.scenario_tasks import run_together


def test_nobody_goes_on_before_all_are_ready(temporary_files: Path) -> None:
    times = run_together([Job(Meeting())] * 3)
    assert max(ready_s for ready_s, _ in times) <= min(begun_s for _, begun_s in times)
    assert not list(temporary_files.iterdir())


def test_one_alone_waits_for_nobody() -> None:
    ((ready_s, begun_s),) = run_together([Job(Meeting())])
    assert ready_s <= begun_s


def test_one_that_fails_says_why_and_leaves_nobody_waiting(temporary_files: Path) -> None:
    with pytest.raises(WorkloadError, match="it does not come"):
        run_together([Job(Meeting()), Job(Meeting(refuses=True))])
    assert not list(temporary_files.iterdir())
