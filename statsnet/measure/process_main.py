"""The program that a measuring process runs: `python -m statsnet.measure.process_main FOLDER PROGRESS_FD`.

FOLDER holds job.json; result.json or error.json is written next to it. The job's function is imported
by name only when it is needed, so that this module stays below the layers that it serves.
"""

from __future__ import annotations

import ctypes
import importlib
import inspect
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from statsnet.errors import StatsNetError, UsageError
from statsnet.workloads import settings

JOBS = {
    "time_workload": "statsnet.measure.timing_tasks:time_workload",
    "time_proxy": "statsnet.measure.timing_tasks:time_proxy",
    "replay": "statsnet.profiling.tasks:replay",
    "count_replay": "statsnet.profiling.tasks:count_replay",
    "profile_workload": "statsnet.profiling.tasks:profile_workload",
    "count_workload": "statsnet.profiling.tasks:count_workload",
    "trace_proxy": "statsnet.synthesis.tasks:trace_proxy",
    "count_traced": "statsnet.synthesis.tasks:count_traced",
    "count_measured": "statsnet.synthesis.tasks:count_measured",
    "measure_candidates": "statsnet.synthesis.tasks:measure_candidates",
    "measure_idle": "statsnet.synthesis.tasks:measure_idle",
    "count_candidates": "statsnet.synthesis.capture_tasks:count_candidates",
    "count_proxy": "statsnet.synthesis.capture_tasks:count_proxy",
}
"""Kind of a job -> its function, `module:function`.

A job's function takes the job's dict and returns one that JSON can hold; if it has a parameter `progress`,
it gets a function that sends a dict to the parent.
"""

_PR_SET_PDEATHSIG = 1


def find_job(kind: str) -> Callable[..., dict[str, Any]]:
    """The function of a kind in JOBS, or a `statsnet.module:function`. Raises UsageError for another."""
    module, colon, function = JOBS.get(kind, kind).partition(":")
    if not colon or not module.startswith("statsnet."):
        raise UsageError(f"'{kind}' is not a kind of job", cause=f"known are {', '.join(JOBS)}")
    found: Callable[..., dict[str, Any]] = getattr(importlib.import_module(module), function)
    return found


def main(folder: Path, progress_fd: int) -> int:
    _end_with_parent()
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    try:
        result = _run(job, progress_fd)
        _write(folder / "result.json", result)
    except StatsNetError as error:
        _write(folder / "error.json", {"class": type(error).__name__, **_parts(error)})
        return error.exit_code
    return 0


def _run(job: dict[str, Any], progress_fd: int) -> dict[str, Any]:
    function = find_job(job["kind"])
    settings.apply(settings.setting_of(job))

    def progress(event: dict[str, Any]) -> None:
        os.write(progress_fd, json.dumps(event).encode() + b"\n")

    if "progress" in inspect.signature(function).parameters:
        return function(job, progress=progress)
    return function(job)


def _parts(error: StatsNetError) -> dict[str, str]:
    return {"message": error.message, "cause": error.cause, "hint": error.hint}


def _write(path: Path, data: dict[str, Any]) -> None:
    """Whole or not at all; NaN and infinity are errors, for no failed run may become a number."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(data, allow_nan=False), encoding="utf-8")
    partial.replace(path)


def _end_with_parent() -> None:
    """Have the kernel end this process when its parent is gone, however that ended (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
