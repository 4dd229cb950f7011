"""Several subjects measured in turn, A B A B, so that a machine that drifts treats them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from statsnet.errors import MeasurementError, StatsNetError
from statsnet.measure.process import Progress, run_job

Job = dict[str, Any]


def interleave(
    subjects: Sequence[Job],
    rounds: int,
    *,
    most: int | None = None,
    enough: Callable[[list[list[dict[str, Any]]]], bool] = lambda _: True,
    timeout_s: float | None = None,
    on_progress: Progress | None = None,
    run: Callable[..., dict[str, Any]] = run_job,
    clock: Callable[[], float] = time.monotonic,
) -> list[list[dict[str, Any]]]:
    """Run every subject's job once per round, each time in a fresh process; returns the results per subject.

    After `rounds` there are more, up to `most`, while the results are not `enough`.
    `on_progress` gets {"stage", "done" (share), "remaining_s" (None at first)} before each run. A job's
    `label` names it there and in errors. The first failure ends it all: MeasurementError, with the job's own
    cause.
    """
    results: list[list[dict[str, Any]]] = [[] for _ in subjects]
    spent_s: list[list[float]] = [[] for _ in subjects]
    for turn in range(max(most or 0, rounds) * len(subjects)):
        number, index = divmod(turn, len(subjects))
        if number >= rounds and index == 0 and enough(results):
            break
        job = subjects[index]
        label = str(job.get("label", job["kind"]))
        if on_progress is not None:
            known = max(rounds, number + 1)
            stage = f"{label}, round {number + 1} of {known}"
            done = turn / (known * len(subjects))
            on_progress({"stage": stage, "done": done, "remaining_s": _remaining_s(spent_s, known)})
        begin = clock()
        try:
            results[index].append(run(job, timeout_s=timeout_s))
        except StatsNetError as error:
            cause = "\n".join(part for part in (error.message, error.cause) if part)
            raise MeasurementError(f"measuring {label} failed", cause=cause, hint=error.hint) from error
        spent_s[index].append(clock() - begin)
    return results


def _remaining_s(spent_s: Sequence[Sequence[float]], rounds: int) -> float | None:
    """Every subject is taken to need its mean time so far, or the mean of all where it has not run yet."""
    known = [seconds for times in spent_s for seconds in times]
    if not known:
        return None
    usual = sum(known) / len(known)
    return sum((rounds - len(times)) * (sum(times) / len(times) if times else usual) for times in spent_s)
