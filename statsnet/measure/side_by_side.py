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
from statsnet.measure.process import MeasuringProcess, run_job

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
    run one after the other and have none. Raises what the jobs raise, with the `label` of the one that failed; one that
    `may_fail` has the result {"failed": why, in a line} instead, and the others go on.
    """
    jobs: list[Job] = job["jobs"]
    found: dict[int, dict[str, Any]] = {}
    if len(jobs) == 1 or not all(j["kind"] in LISTENING for j in jobs) or not _fit(jobs):
        for place, each in enumerate(jobs):
            with tolerate_failure(each, place, found), _named(each):
                found[place] = run_job(each, timeout_s=timeout_s)
    else:
        _take_turns(jobs, found, timeout_s)
    return {"outcomes": [found[place] for place in range(len(jobs))]}


def _take_turns(jobs: Sequence[Job], found: dict[int, dict[str, Any]], timeout_s: float | None) -> None:
    """Puts the jobs' results into `found`, by their places."""
    time_s = max(min(j.get("min_time_s", TIME_S), j.get("max_time_s", math.inf)) for j in jobs)
    with contextlib.ExitStack() as stack:
        workers: dict[int, tuple[Job, MeasuringProcess, Iterator[dict[str, Any]]]] = {}
        for place, each in enumerate(jobs):  # they warm up one after the other
            worker = stack.enter_context(MeasuringProcess({**each, "in_turn": True}, listens=True))
            with tolerate_failure(each, place, found):
                workers[place] = (each, worker, worker.events(timeout_s))
                _wait_for("ready", *workers[place])
        turns, begin = 0, time.monotonic()
        waited_s: dict[int, float] = {}
        while turns < FEWEST_TURNS or time.monotonic() - begin - sum(waited_s.values()) < time_s * len(jobs):
            workers = {place: parts for place, parts in workers.items() if place not in found}
            for place, (each, worker, events) in workers.items():
                with tolerate_failure(each, place, found):
                    worker.tell("step")
                    waited_s[place] = _wait_for("window_s", each, worker, events)["waited_s"]
                time.sleep(PAUSE_S)
            turns += 1
        for place, parts in workers.items():
            if place not in found:
                with tolerate_failure(parts[0], place, found):
                    found[place] = _end(*parts)


@contextlib.contextmanager
def tolerate_failure(job: Job, place: int, found: dict[int, dict[str, Any]]) -> Iterator[None]:
    """What goes wrong with a job that may fail is its result."""
    try:
        yield
    except StatsNetError as error:
        if not job.get("may_fail"):
            raise
        said_last = (error.cause or "").strip().splitlines()[-1:]
        found[place] = {"failed": ": ".join([error.message, *said_last])}


def _fit(jobs: Sequence[Job]) -> bool:
    peaks = [j.get("peak_bytes") or 0 for j in jobs]
    return sum(peaks) <= FITS * describe(jobs[0].get("device", "cpu"))["memory_bytes"]


def _wait_for(
    key: str, job: Job, worker: MeasuringProcess, events: Iterator[dict[str, Any]]
) -> dict[str, Any]:
    with _named(job):
        for event in events:
            if key in event:
                return event
        worker.result()  # says why
        raise MeasurementError("a measuring process ended before its turn", hint="measure again")


def _end(job: Job, worker: MeasuringProcess, events: Iterator[dict[str, Any]]) -> dict[str, Any]:
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
