"""Several processes that begin at the same moment, as instances of one server do."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TypeVar

from statsnet.errors import MeasurementError
from statsnet.measure.control import Job
from statsnet.measure.patience import PATIENCE
from statsnet.measure.process import MeasuringProcess, run_job

R = TypeVar("R")


def run_together(jobs: Sequence[Job[R]]) -> list[R]:
    """Results of the jobs, in their order. Each gets ready in a process of its own, says so, and waits for a turn; all
    get it when the last is ready. One job alone is simply run. Raises what the tasks raise."""
    if len(jobs) == 1:
        return [run_job(jobs[0])]
    with contextlib.ExitStack() as stack:
        running = []
        for job in jobs:
            process = stack.enter_context(MeasuringProcess(job.task, job.control, takes_turns=True))
            events = process.events()
            if not any(event.ready for event in events):
                process.result()  # says why
                raise MeasurementError("a measuring process ended before its turn", hint="measure again")
            running.append((process, events))
        for process, _ in running:
            process.tell(str(PATIENCE.spent_s))
        results = []
        for process, events in running:
            for _ in events:
                pass
            results.append(process.result())
        return results
