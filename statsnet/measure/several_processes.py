"""One task in several processes that run a step together, as torchrun would start them.

Each process knows its rank by torchrun's variables. The first one's result counts. If one of them fails, the others are
ended at once; the error says which one it was. A process that only lost the connection to another is not to blame.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from statsnet.environment.launch import RUN_VARIABLE
from statsnet.environment.record import usable_cores
from statsnet.errors import MeasurementError, StatsNetError
from statsnet.measure.control import DEFAULT, Control
from statsnet.measure.process import MeasuringProcess
from statsnet.measure.rank_ends import GROUP_TIMEOUT_S
from statsnet.measure.rank_errors import (
    OTHERS_S,
    SAME,
    has_waited,
    in_plain_words,
    is_victim,
    named,
    says,
    without_callbacks,
)
from statsnet.measure.task import Task
from statsnet.progress import Progress, Report, silent
from statsnet.units import format_duration

R = TypeVar("R")

_TAKEN = re.compile(r"EADDRINUSE|address (is )?already in use", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Ended(Generic[R]):
    rank: int
    result: R | None = None
    error: Exception | None = None


def run_in_group(
    task: Task[R],
    processes: int,
    control: Control = DEFAULT,
    *,
    timeout_s: float = GROUP_TIMEOUT_S,
    report: Report = silent,
) -> R:
    """The result of the first of `processes` that run the task together. A process that waits longer than `timeout_s`
    for another one gives up.

    Raises the error of the process that failed first of its own accord; MeasurementError for one that never answered.
    Leaves no process behind.
    """
    try:
        return _run_at(_free_port(), task, processes, control, timeout_s, report)
    except StatsNetError as error:
        if not says(error, _TAKEN):
            raise
        return _run_at(_free_port(), task, processes, control, timeout_s, report)


def _run_at(port: int, task: Task[R], processes: int, control: Control, timeout_s: float, report: Report) -> R:
    """Whose first process listens at a port that was free a moment ago."""
    said: queue.SimpleQueue[Progress | _Ended[R]] = queue.SimpleQueue()
    env = {**control.env, **_threads(processes, control)}
    with contextlib.ExitStack() as stack:
        for rank in range(processes):
            own = replace(control, env=env, rank_env=_variables(rank, processes, port))
            process = MeasuringProcess(task, own)
            stack.enter_context(process)
            thread = threading.Thread(target=_follow, args=(rank, process, said))
            thread.start()
            stack.callback(thread.join)
            stack.callback(process.end)  # before its thread is waited for, which ends with it
        return _outcome(said, processes, timeout_s, report)


def _follow(rank: int, process: MeasuringProcess[Any], said: queue.SimpleQueue[Any]) -> None:
    """Pass on what a process says, and how it ends."""
    try:
        for event in process.events():
            if rank == 0 and event.progress is not None:
                said.put(event.progress)
        said.put(_Ended(rank, result=process.result()))
    except Exception as error:
        said.put(_Ended(rank, error=error))


def _outcome(said: queue.SimpleQueue[Progress | _Ended[R]], processes: int, timeout_s: float, report: Report) -> R:
    results: dict[int, R] = {}
    victims: list[_Ended[R]] = []
    deadline: float | None = None
    while len(results) + len(victims) < processes:
        try:
            heard = said.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        if isinstance(heard, Progress):
            report(heard)
        elif heard.error is None:
            results[heard.rank] = heard.result  # type: ignore[assignment]
            if heard.rank == 0:  # all have measured: what the others still do is only their end
                deadline = deadline or time.monotonic() + OTHERS_S
        elif is_victim(heard.error):
            victims.append(heard)
            deadline = deadline or time.monotonic() + OTHERS_S
        else:
            raise _named(heard.rank, processes, heard.error)
    if 0 in results:
        return results[0]
    silent_ranks = sorted({*range(processes)} - {v.rank for v in victims} - results.keys())
    raise _no_answer(silent_ranks, victims, processes, timeout_s)


def _named(rank: int, processes: int, error: Exception) -> Exception:
    if not isinstance(error, StatsNetError):
        return error
    if not is_victim(error) or has_waited(error):
        error = in_plain_words(error)
    return named(error, rank, processes)


def _no_answer(
    silent_ranks: Sequence[int], victims: Sequence[_Ended[Any]], processes: int, timeout_s: float
) -> Exception:
    """Who did not answer, if there is one and another waited for it; else what the first victim says."""
    waited = next((v for v in victims if v.error is not None and has_waited(v.error)), None)
    if not silent_ranks or waited is None:
        told = waited or victims[0]
        assert told.error is not None
        return _named(told.rank, processes, told.error)
    ranks = " and ".join(map(str, silent_ranks))
    cause = without_callbacks(waited.error.cause if isinstance(waited.error, StatsNetError) else str(waited.error))
    return MeasurementError(
        f"rank {ranks} did not answer",
        cause=f"rank {waited.rank} waited {format_duration(timeout_s)} for it in a collective ({cause})",
        hint=SAME,
    )


def _variables(rank: int, processes: int, port: int) -> dict[str, str]:
    """Torchrun's, with a name for the run."""
    return {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "GROUP_RANK": "0", "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        RUN_VARIABLE: "nproc", "TORCHELASTIC_USE_AGENT_STORE": "False",  # which only a torchrun around this one has
    }  # fmt: skip


def _threads(processes: int, control: Control) -> dict[str, str]:
    """A rank's part of the cores, unless the user has said how many threads there are to be."""
    if "OMP_NUM_THREADS" in os.environ or "OMP_NUM_THREADS" in control.setting.env:
        return {}
    return {"OMP_NUM_THREADS": str(max(1, usable_cores() // processes))}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
