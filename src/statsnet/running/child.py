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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from statsnet import errors
from statsnet.environment import ALLOCATOR_ENV, describe
from statsnet.errors import MeasurementError, StatsNetError
from statsnet.running.settings import setting_of

Progress = Callable[[dict[str, Any]], None]

_POLL_S = 0.5
_TAIL_LINES = 8


def run_job(
    job: dict[str, Any],
    *,
    env: dict[str, str] | None = None,
    timeout_s: float | None = None,
    on_progress: Progress | None = None,
) -> dict[str, Any]:
    """Run `job` in a fresh process and return its result.

    `job["kind"]` names the function (see worker.py). `job["threads"]` and `job["setting"]` (a Setting's
    dict), where present, decide the child's environment; `env` is added last. What the job reports as
    progress is passed on as it comes.

    Raises the job's own StatsNetError, or MeasurementError if the child fails in any other way or
    `timeout_s` is over. No process and no file is left behind, not after Ctrl-C either.
    """
    with tempfile.TemporaryDirectory(prefix="statsnet-") as name:
        folder = Path(name)
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        exit_code = _run_worker(folder, child_environment(job, env), timeout_s, on_progress)
        return _read_outcome(folder, exit_code)


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


def _run_worker(
    folder: Path, env: dict[str, str], timeout_s: float | None, on_progress: Progress | None
) -> int:
    reading_end, writing_end = os.pipe()
    command = [sys.executable, "-P", "-m", "statsnet.running.worker", str(folder), str(writing_end)]
    with open(reading_end, "rb", buffering=0) as progress, open(folder / "output", "wb") as output:
        try:
            process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(writing_end,),
                start_new_session=True,  # a group of its own, so that what the job itself starts ends with it
            )
        finally:
            os.close(writing_end)
        try:
            _pass_on_progress(process, progress.fileno(), timeout_s, on_progress)
            return process.wait()
        finally:
            _end_group(process)


def _pass_on_progress(
    process: subprocess.Popen[bytes], pipe: int, timeout_s: float | None, on_progress: Progress | None
) -> None:
    """Return when the child has ended, even if a process that it started still holds the pipe open."""
    deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            ended = process.poll() is not None
            if selector.select(0 if ended else _POLL_S):
                chunk = os.read(pipe, 65536)
                if not chunk:
                    break
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    if on_progress is not None:
                        on_progress(json.loads(line))
            elif ended:
                return
            if time.monotonic() > deadline:
                raise _too_slow(timeout_s)
    try:
        process.wait(None if timeout_s is None else max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise _too_slow(timeout_s) from None


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


def _read_outcome(folder: Path, exit_code: int) -> dict[str, Any]:
    if (folder / "error.json").exists():
        raise _child_error(json.loads((folder / "error.json").read_text(encoding="utf-8")))
    if exit_code == 0 and (folder / "result.json").exists():
        result: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        return result
    raise MeasurementError(
        f"a measuring process {_how_it_ended(exit_code)}",
        cause=_tail(folder / "output"),
        hint="free memory, or use a smaller preset or batch" if exit_code == -signal.SIGKILL else "",
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
