"""One task in one process of its own.

One process is one sample: memory placement differs between processes and can change a time by 10 %. A server forks the
process, which saves seconds of imports (forked_process.py), unless the task's control asks for variables of its own or
another program around it: then the process is a fresh Python.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast

from statsnet.environment import ALLOCATOR_ENV, describe, quota_env
from statsnet.environment.record import on_all_cores
from statsnet.environment.temporary import temporary_folder
from statsnet.measure import device_lock, end_with_parent, sandbox
from statsnet.measure.control import DEFAULT, Control, Job
from statsnet.measure.device_lock import LOCKS
from statsnet.measure.forked_process import fork_process, start_server
from statsnet.measure.memory_watch import MemoryWatch
from statsnet.measure.outcome import read_outcome, too_slow
from statsnet.measure.patience import PATIENCE
from statsnet.measure.task import Event, Task, class_name, converted, decode_event, encode_task, result_type, to_json
from statsnet.progress import Report, silent
from statsnet.signatures.measurement import Environment

R = TypeVar("R")

_PROGRAM = "statsnet.measure.process_main"
_ENDING_WITH_THIS = (sys.executable, "-I", "-S", end_with_parent.__file__)
"""Put before a program: it ends with this process, which is named behind it."""

_POLL_S = 0.5


def run(
    task: Task[R],
    control: Control = DEFAULT,
    *,
    report: Report = silent,
    begun: Callable[[int], None] = silent,
) -> R:
    """Run a task in a process of its own and return its result.

    `report` gets its progress as it comes, `begun` the number of each item that it starts. Raises the task's own
    StatsNetError, or MeasurementError if the process fails in any other way, takes longer than `control.timeout_s`, or
    more memory than there is. Waits while another program measures on the task's device. Leaves no process and no file
    behind, even after Ctrl-C.
    """
    with MeasuringProcess(task, control) as process:
        for event in process.events():
            if event.progress is not None:
                report(event.progress)
            if event.item is not None:
                begun(event.item)
        return process.result()


def prepare_on(device: str) -> None:
    """Have what forks processes import torch meanwhile, for tasks on this device that will run under the default
    control. Within a command, which has the device's lock from now on."""
    if not sandbox.is_on():
        with LOCKS.measuring_on(device):
            start_server(child_environment())


def run_job(job: Job[R], *, report: Report = silent) -> R:
    """`run` with the job's control."""
    return run(job.task, job.control, report=report)


TELL_NOBODY = {"ORT_DISABLE_TELEMETRY": "1"}
"""Else onnxruntime reports to its makers whenever it is given a model (its Privacy.md). OpenVINO has no such switch:
runtimes.py."""


def child_environment(control: Control = DEFAULT) -> dict[str, str]:
    """This process's variables, those of the allocator (unless STATSNET_ALLOCATOR=system), of a container's quota of
    CPU time, of the setting and of the control, and TELL_NOBODY; no lock of a device, which the command holds for it.

    The child finds the same modules as this process, and no others in the working directory.
    """
    allocator = {} if os.environ.get("STATSNET_ALLOCATOR") == "system" else ALLOCATOR_ENV
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    own = {device_lock.SWITCH: "0", "PYTHONPATH": path}
    return {**allocator, **quota_env(), **TELL_NOBODY, **os.environ, **own, **control.setting.env, **control.env}


def measuring_environment(device: str = "cpu") -> Environment:
    """The environment record that a measuring process started by this one will have."""
    variables = child_environment()
    allocator = {name: variables[name] for name in ALLOCATOR_ENV if name in variables}
    here = describe(device)
    within = quota_env()
    if within and here["threads"] is not None:
        here["threads"] = int(within["OMP_NUM_THREADS"])
    settings = dict(sorted({**here["settings"], **within}.items()))
    return cast(Environment, {**here, "allocator": {**here["allocator"], **allocator}, "settings": settings})


class Running(Protocol):
    """A process, however it was started. Methods are those of subprocess.Popen."""

    stdin: Any

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def end(self) -> None:
        """End the process and whatever it started."""


class _FreshProcess(subprocess.Popen[bytes]):
    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()


class MeasuringProcess(Generic[R]):
    """A process that runs a task. Leaving its `with` block ends it, whatever it was doing.

    If it `takes_turns`, its standard input is a pipe through which `tell` says what to do next; otherwise it is empty.
    """

    def __init__(self, task: Task[R], control: Control = DEFAULT, *, takes_turns: bool = False) -> None:
        self._task, self._control, self._takes_turns = task, control, takes_turns
        self._resources = contextlib.ExitStack()

    def __enter__(self) -> MeasuringProcess[R]:
        message = {
            "task": encode_task(self._task),
            "setting": self._control.setting,
            "takes_turns": self._takes_turns,
            "patience": (PATIENCE.begun_s, PATIENCE.spent_s),
        }
        with contextlib.ExitStack() as resources:
            resources.enter_context(LOCKS.measuring_on(self._task.measured_device))
            self._folder = resources.enter_context(temporary_folder())
            (self._folder / "task.json").write_text(to_json(message), encoding="utf-8")
            reading_end, writing_end = os.pipe()
            self._events = resources.enter_context(open(reading_end, "rb", buffering=0))
            try:
                self._process = self._start(writing_end)
            finally:
                os.close(writing_end)
            resources.callback(self._process.end)
            self._memory = MemoryWatch(self._process.pid)
            resources.callback(self.tell, None)
            self._resources = resources.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def _start(self, writing_end: int) -> Running:
        control = self._control
        variables = child_environment(control)
        with open(self._folder / "output", "wb") as output:
            if self._may_be_forked():
                forked = fork_process(
                    class_name(self._task),
                    self._folder,
                    variables,
                    rank_env=control.rank_env,
                    takes_turns=self._takes_turns,
                    output=output.fileno(),
                    events=writing_end,
                )
                if forked is not None:
                    return forked
            program = [*control.under, sys.executable, "-P", "-m", _PROGRAM, str(self._folder), str(writing_end)]
            within = sandbox.around(self._folder, *map(Path, control.writes))
            with on_all_cores():
                return _FreshProcess(
                    [*_ENDING_WITH_THIS, str(os.getpid()), *within, *program],
                    env=variables | control.rank_env,
                    stdin=subprocess.PIPE if self._takes_turns else subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(writing_end, *LOCKS.descriptors),
                    start_new_session=True,  # its own group, so that processes which the task starts end with it
                )

    def _may_be_forked(self) -> bool:
        """Not if the process needs variables of its own, or runs under another program or in a sandbox."""
        control = self._control
        return not (control.setting.env or control.env or control.under or sandbox.is_on())

    def end(self) -> None:
        """End the process, whatever it is doing."""
        if self._process.poll() is None:
            self._process.end()

    def events(self) -> Iterator[Event]:
        """Yields the task's events as they come, until the process has ended, even if a process that it started still
        holds the pipe open. Raises MeasurementError after the control's times, or if it takes too much memory."""
        timeout_s, silent_s = self._control.timeout_s, self._control.silent_s or math.inf
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        pending, looked_s, heard_s = b"", 0.0, time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(self._events, selectors.EVENT_READ)
            while True:
                ended = self._process.poll() is not None
                if selector.select(0 if ended else _POLL_S):
                    chunk = os.read(self._events.fileno(), 65536)
                    if not chunk:
                        break
                    (*lines, pending), heard_s = (pending + chunk).split(b"\n"), time.monotonic()
                    yield from map(_heard, lines)
                elif ended:
                    return
                if (now_s := time.monotonic()) > deadline:
                    raise too_slow(timeout_s)
                if now_s > heard_s + silent_s:
                    raise too_slow(silent_s, "said nothing for")
                if now_s > looked_s + _POLL_S:
                    self._memory.look()
                    looked_s = now_s
        try:
            self._process.wait(None if timeout_s is None else max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise too_slow(timeout_s) from None

    def tell(self, line: str | None) -> None:
        """Send the task a line; None means that there will be no more. Does nothing if the process has ended."""
        if self._process.stdin is None:
            return
        with contextlib.suppress(BrokenPipeError):
            if line is None:
                self._process.stdin.close()
            else:
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()

    def result(self) -> R:
        """Waits for the process to end. Raises the task's own StatsNetError, or MeasurementError."""
        data = read_outcome(self._folder, self._process.wait(), alone=not self._control.under)
        result: R = converted(data, result_type(self._task))
        return result


def _heard(line: bytes) -> Event:
    """What the process has spent on waiting counts for the whole command, and so do its measurements."""
    event = decode_event(line)
    PATIENCE.spend(event.waited_s)
    if event.at_best is not None:
        PATIENCE.count(at_best=event.at_best)
    return event
