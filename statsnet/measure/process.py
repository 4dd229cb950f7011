"""One measuring job in one fresh process.

One process is one sample: where its memory happens to lie can move a time by 10 %.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from statsnet import errors
from statsnet.environment import ALLOCATOR_ENV, describe
from statsnet.errors import MeasurementError, ProcessError, StatsNetError
from statsnet.workloads.settings import setting_of

Progress = Callable[[dict[str, Any]], None]

_POLL_S = 0.5
_TAIL_LINES = 8


def run_job(
    job: dict[str, Any],
    *,
    env: dict[str, str] | None = None,
    under: Sequence[str] = (),
    timeout_s: float | None = None,
    on_progress: Progress | None = None,
) -> dict[str, Any]:
    """Run `job` in a fresh process and return its result.

    `job["kind"]` names the function (see worker.py). `job["threads"]` and `job["setting"]` (a Setting's
    dict), where present, decide the child's environment; `env` is added last. `under` is put before its
    command: a program that runs it. What the job reports as progress is passed on as it comes.

    Raises the job's own StatsNetError, or MeasurementError if the child fails in any other way or
    `timeout_s` is over. No process and no file is left behind, not after Ctrl-C either.
    """
    with MeasuringProcess(job, env=env, under=under) as worker:
        for event in worker.events(timeout_s):
            if on_progress is not None:
                on_progress(event)
        return worker.result()


def child_environment(job: dict[str, Any], extra: dict[str, str] | None = None) -> dict[str, str]:
    """This process's variables, the allocator's unless STATSNET_ALLOCATOR=system, the setting's, and `extra`.

    The child finds the same modules as this process, and none in the working directory besides.
    """
    allocator = {} if os.environ.get("STATSNET_ALLOCATOR") == "system" else ALLOCATOR_ENV
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {**allocator, **os.environ, "PYTHONPATH": path, **setting_of(job).env, **(extra or {})}


def measuring_environment(device: str = "cpu") -> dict[str, Any]:
    """The environment record that a measuring process started by this one will have."""
    variables = child_environment({})
    allocator = {name: variables[name] for name in ALLOCATOR_ENV if name in variables}
    here = describe(device)
    return {**here, "allocator": {**here["allocator"], **allocator}}


class MeasuringProcess:
    """A fresh process that runs a job. Leaving its `with` block ends it, whatever it was doing.

    With `listens` its standard input is a pipe, on which it is told what to do next (`tell`); otherwise it is empty.
    """

    def __init__(
        self,
        job: dict[str, Any],
        *,
        env: dict[str, str] | None = None,
        under: Sequence[str] = (),
        listens: bool = False,
    ) -> None:
        self._job, self._env, self._under, self._listens = job, env, under, listens
        self._kept = contextlib.ExitStack()

    def __enter__(self) -> MeasuringProcess:
        with contextlib.ExitStack() as kept:
            self._folder = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="statsnet-")))
            (self._folder / "job.json").write_text(json.dumps(self._job), encoding="utf-8")
            reading_end, writing_end = os.pipe()
            self._progress = kept.enter_context(open(reading_end, "rb", buffering=0))
            try:
                self._process = self._start(writing_end)
            finally:
                os.close(writing_end)
            kept.callback(_end_group, self._process)
            kept.callback(self.tell, None)
            self._kept = kept.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()

    def _start(self, writing_end: int) -> subprocess.Popen[bytes]:
        module = "statsnet.measure.process_main"
        with open(self._folder / "output", "wb") as output:
            return subprocess.Popen(
                [*self._under, sys.executable, "-P", "-m", module, str(self._folder), str(writing_end)],
                env=child_environment(self._job, self._env),
                stdin=subprocess.PIPE if self._listens else subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(writing_end,),
                start_new_session=True,  # a group of its own, so that what the job itself starts ends with it
            )

    def events(self, timeout_s: float | None = None) -> Iterator[dict[str, Any]]:
        """What the job reports, as it comes, until the process has ended, even if one that it started still holds the
        pipe open. Raises MeasurementError when `timeout_s` is over."""
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        pending = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._progress, selectors.EVENT_READ)
            while True:
                ended = self._process.poll() is not None
                if selector.select(0 if ended else _POLL_S):
                    chunk = os.read(self._progress.fileno(), 65536)
                    if not chunk:
                        break
                    *lines, pending = (pending + chunk).split(b"\n")
                    yield from map(json.loads, lines)
                elif ended:
                    return
                if time.monotonic() > deadline:
                    raise _too_slow(timeout_s)
        try:
            self._process.wait(None if timeout_s is None else max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise _too_slow(timeout_s) from None

    def tell(self, line: str | None) -> None:
        """A line for the job; None: there will be no more. One that has ended is told nothing."""
        if self._process.stdin is None:
            return
        with contextlib.suppress(BrokenPipeError):
            if line is None:
                self._process.stdin.close()
            else:
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()

    def result(self) -> dict[str, Any]:
        """Of a process that has ended. Raises the job's own StatsNetError, or MeasurementError."""
        return _read_outcome(self._folder, self._process.wait(), alone=not self._under)


_HINTS: dict[int, str] = {
    signal.SIGKILL: "free memory, or use a smaller preset or batch",
    signal.SIGILL: "the processor names instructions that it cannot run, as virtual machines do with AMX: "
    "set ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16, or a lower one",
}
"""Signals that are the machine's matter, whatever was measured."""


def _too_slow(timeout_s: float | None) -> MeasurementError:
    return MeasurementError(
        f"a measuring process did not end within {timeout_s:g} s",
        cause="the job is too slow for the time allowed, or it hangs",
        hint="allow more time, or use a smaller preset or batch",
    )


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the child and whatever it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read_outcome(folder: Path, exit_code: int, *, alone: bool) -> dict[str, Any]:
    """A result is written whole, as the job's last deed. Libraries' threads may abort the process behind it, as gloo's
    do; but what a program that ran it (not `alone`) has recorded may then be a part."""
    if (folder / "error.json").exists():
        raise _child_error(json.loads((folder / "error.json").read_text(encoding="utf-8")))
    if (exit_code == 0 or alone) and (folder / "result.json").exists():
        result: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        return result
    kind = MeasurementError if -exit_code in _HINTS else ProcessError
    raise kind(
        f"a measuring process {_how_it_ended(exit_code)}",
        cause=_tail(folder / "output"),
        hint=_HINTS.get(-exit_code, ""),
    )


def _child_error(data: dict[str, Any]) -> StatsNetError:
    kind = getattr(errors, data["class"], None)
    if not (isinstance(kind, type) and issubclass(kind, StatsNetError)):
        kind = StatsNetError
    return kind(data["message"], cause=data["cause"], hint=data["hint"])


def _how_it_ended(exit_code: int) -> str:
    if exit_code == -signal.SIGKILL:
        return "was killed (SIGKILL), as the system does when memory runs out"
    if exit_code < 0:
        return f"was ended by the signal {signal.Signals(-exit_code).name}"
    return f"failed (exit code {exit_code})"


def _tail(path: Path) -> str:
    """The last lines that the child printed, which end with the exception; of several, the one that began it."""
    text = path.read_text(encoding="utf-8", errors="replace")
    text = text.partition("During handling of the above exception")[0].strip()
    lines = [line for line in text.splitlines() if not line.startswith("USDT:")]  # torch's profiler says them
    return "\n".join(lines[-_TAIL_LINES:]) or "it printed nothing"
