"""Several processes side by side, each making its steps in its turn.

A machine with neighbours is slower by a tenth for seconds or minutes at a time. What is measured one process after the
other meets different moments; what is measured in short windows, A B A B, meets the same ones, and the ratio of two
windows next to each other is many times surer than that of two processes (docs/method.md has figures).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

from statsnet.environment import describe
from statsnet.errors import MeasurementError, StatsNetError
from statsnet.running.child import Worker, run_job

Job = dict[str, Any]

FEWEST_TURNS = 5
"""Of fewer a trimmed mean leaves none out, and a step that a neighbour held up would count in full."""

TIME_S = 5.0
"""What a process's windows take together, where its job does not say `min_time_s`; FEWEST_TURNS of them at least."""

PAUSE_S = 0.02
"""Between two turns, until the threads of the one before have gone to sleep."""

FITS = 0.7
"""Share of the device's memory that processes side by side may take together."""

LISTENING = ("time_workload", "time_proxy")
"""Kinds of job that can be told when to step."""


def side_by_side(job: Job, *, timeout_s: float | None = None) -> dict[str, Any]:
    """Run the jobs in `job["jobs"]` in fresh processes that take turns; {"outcomes": their results, in their order}.

    Each result has `window_latency_s`, the median of each of its windows: the n-th of all belong together. Jobs that
    cannot be told when to step (a replay), and those that would not fit into memory together (by their `peak_bytes`),
    run one after the other and have none. Raises what the jobs raise, with the `label` of the one that failed.
    """
    jobs: list[Job] = job["jobs"]
    if len(jobs) == 1 or not all(j["kind"] in LISTENING for j in jobs) or not _fit(jobs):
        return {"outcomes": [_alone(each, timeout_s) for each in jobs]}
    time_s = max(min(j.get("min_time_s", TIME_S), j.get("max_time_s", math.inf)) for j in jobs)
    with contextlib.ExitStack() as stack:
        workers: list[tuple[Job, Worker, Iterator[dict[str, Any]]]] = []
        for each in jobs:  # they warm up one after the other
            worker = stack.enter_context(Worker({**each, "in_turn": True}, listens=True))
            workers.append((each, worker, worker.events(timeout_s)))
            _wait_for("ready", *workers[-1])
        turns, begin = 0, time.monotonic()
        while turns < FEWEST_TURNS or time.monotonic() - begin < time_s * len(jobs):
            for each, worker, events in workers:
                worker.tell("step")
                _wait_for("window_s", each, worker, events)
                time.sleep(PAUSE_S)
            turns += 1
        return {"outcomes": [_end(*parts) for parts in workers]}


def _fit(jobs: Sequence[Job]) -> bool:
    peaks = [j.get("peak_bytes") or 0 for j in jobs]
    return sum(peaks) <= FITS * describe(jobs[0].get("device", "cpu"))["memory_bytes"]


def _alone(job: Job, timeout_s: float | None) -> dict[str, Any]:
    with _named(job):
        return run_job(job, timeout_s=timeout_s)


def _wait_for(key: str, job: Job, worker: Worker, events: Iterator[dict[str, Any]]) -> None:
    with _named(job):
        for event in events:
            if key in event:
                return
        worker.result()  # says why
        raise MeasurementError("a measuring process ended before its turn", hint="measure again")


def _end(job: Job, worker: Worker, events: Iterator[dict[str, Any]]) -> dict[str, Any]:
    worker.tell(None)
    with _named(job):
        for _ in events:
            pass
        return worker.result()


@contextlib.contextmanager
def _named(job: Job) -> Iterator[None]:
    """An error says which of the group it is about."""
    try:
        yield
    except StatsNetError as error:
        if "label" not in job:
            raise
        raise type(error)(f"{job['label']}: {error.message}", cause=error.cause, hint=error.hint) from error
