"""Several processes side by side, each making its steps in its turn.

A machine with neighbours is slower by a tenth for seconds or minutes at a time. What is measured one process after the
other meets different moments; what is measured in short windows, A B A B, meets the same ones, and the ratio of two
windows next to each other is many times surer than that of two processes (docs/method.md has figures).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from statistics import median
from typing import Any

from statsnet.errors import MeasurementError
from statsnet.running.child import Worker, run_job

Job = dict[str, Any]

WINDOW_S = 0.4
FEWEST_TURNS = 3
TIME_S = 5.0
"""What a process's windows take together, where its job does not say `max_time_s`; FEWEST_TURNS of them at least."""

PAUSE_S = 0.02
"""Between two turns, until the threads of the one before have gone to sleep."""

LISTENING = ("time_workload", "time_proxy")
"""Kinds of job that can be told when to step."""


def side_by_side(job: Job, *, timeout_s: float | None = None) -> dict[str, Any]:
    """Run the jobs in `job["jobs"]` in fresh processes that take turns; {"outcomes": their results, in their order}.

    Each result has `window_latency_s`, the median of each of its windows: the n-th of all belong together. Jobs that
    cannot be told when to step (a replay), and those that would not fit into memory together (`job["alone"]`), run one
    after the other and have none. Raises what the jobs raise.
    """
    jobs: list[Job] = job["jobs"]
    if job.get("alone") or len(jobs) == 1 or any(j["kind"] not in LISTENING for j in jobs):
        return {"outcomes": [run_job(j, timeout_s=timeout_s) for j in jobs]}
    time_s = max(float(j.get("max_time_s", TIME_S)) for j in jobs)
    with contextlib.ExitStack() as stack:
        workers: list[tuple[Worker, Iterator[dict[str, Any]]]] = []
        for each in jobs:  # they warm up one after the other
            worker = stack.enter_context(Worker({**each, "in_turn": True}, listens=True))
            events = worker.events(timeout_s)
            _expect(worker, events, "ready")
            workers.append((worker, events))
        turns, begin = 0, time.monotonic()
        while turns < FEWEST_TURNS or time.monotonic() - begin < time_s * len(jobs):
            for worker, events in workers:
                worker.tell("step")
                _expect(worker, events, "window_s")
                time.sleep(PAUSE_S)
            turns += 1
        return {"outcomes": [_end(worker, events) for worker, events in workers]}


def _expect(worker: Worker, events: Iterator[dict[str, Any]], key: str) -> None:
    for event in events:
        if key in event:
            return
    worker.result()  # says why
    raise MeasurementError("a measuring process ended before its turn", hint="measure again")


def _end(worker: Worker, events: Iterator[dict[str, Any]]) -> dict[str, Any]:
    worker.tell(None)
    for _ in events:
        pass
    return worker.result()


def take_turns(
    step: Callable[[], object],
    commands: Iterable[str],
    report: Callable[[dict[str, Any]], None],
    *,
    device: str = "cpu",
    max_time_s: float = TIME_S,
) -> dict[str, Any]:
    """The other side, in the process itself: warm up, then a window of steps for each line of `commands`.

    Returns an entry of a result's `processes` with `window_latency_s`.
    """
    from statsnet.running.harness import PRECISION, _time_once, _warm_up, precision

    timed = partial(_time_once, step, device, time.perf_counter)
    warmup, settled = _warm_up(timed, window_s=WINDOW_S / 2, limit_s=max_time_s)
    usual_s = median(warmup[-3:])
    times: list[float] = []
    windows: list[float] = []
    report({"ready": True})
    for _ in commands:
        if usual_s < WINDOW_S / 4:
            timed()  # brings back what the others' turns drove out of the caches
        end = time.perf_counter() + WINDOW_S
        window = [timed()]
        while time.perf_counter() < end:
            window.append(timed())
        times += window
        windows.append(median(window))
        report({"window_s": windows[-1]})
    return {
        "latency_s": times,
        "warmup_latency_s": warmup,
        "stable": settled and precision(times) < PRECISION,
        "warnings": [] if settled else ["the warm-up did not settle: raise --max-time"],
        "window_latency_s": windows,
    }
