"""Nsight Compute's command line, `ncu`: which counters are asked for, and a task run under it.

Under ncu, kernels run one by one, many times each. So its times are not those of the step; only its counters are used.
It follows Nsight Compute's documentation of the command line.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from statsnet.environment.temporary import temporary_folder
from statsnet.errors import FileFormatError, MeasurementError, StatsNetError
from statsnet.measure.control import Control
from statsnet.measure.ncu_csv import METRICS, CountedKernels, read_table
from statsnet.measure.process import run
from statsnet.measure.task import CountableTask, UnderNcu
from statsnet.progress import Progress, Report
from statsnet.signatures.gpu import COUNTERS, CounterName, Reason

RANGE = "statsnet_step"
"""The NVTX range around the step that is counted. It is a start/end range, which covers all threads: autograd launches
the backward kernels from threads of its own."""

WARM_UPS = 3
"""Steps before the one that is counted: libraries choose their kernels in the first steps."""

NO_PERMISSION = "ERR_NVGPUCTRPERM"
"""ncu's message if the driver gives counters to administrators only."""

_PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/ncu")


class NotCounted(MeasurementError):
    """`why` is the word for the reason in a signature."""

    def __init__(self, why: Reason, message: str, *, cause: str, hint: str) -> None:
        super().__init__(message, cause=cause, hint=hint)
        self.why = why


def run_in_range(step: Callable[[], object], device: str) -> None:
    """Run the step WARM_UPS times, then once within RANGE, where ncu counts its kernels."""
    import torch

    for _ in range(WARM_UPS):
        step()
    torch.cuda.synchronize(device)
    handle = torch.cuda.nvtx.range_start(RANGE)
    step()
    torch.cuda.synchronize(device)
    torch.cuda.nvtx.range_end(handle)


def find_ncu() -> str | None:
    """The path of ncu, if this machine has it."""
    return shutil.which("ncu") or next((place for place in _PLACES if os.access(place, os.X_OK)), None)


@functools.cache
def known_metrics(ncu: str) -> set[str] | None:
    """The base names of the metrics that ncu knows for this machine's GPU; None if it cannot say.

    ncu refuses the whole run if it does not know one metric.
    """
    try:
        done = subprocess.run([ncu, "--query-metrics"], capture_output=True, text=True, check=False, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return None
    metrics = {line.split()[0] for line in done.stdout.splitlines() if "__" in line.partition(" ")[0]}
    return metrics or None


def wanted(known: Collection[str] | None) -> list[CounterName]:
    """Counters whose metrics are all known."""
    return [
        name
        for name in COUNTERS
        if known is None or all(metric.partition(".")[0] in known for metric in METRICS[name][1])
    ]


def command(ncu: str, counters: Sequence[CounterName], log: str) -> list[str]:
    """A prefix for a program's command: ncu counts the kernels in RANGE and writes them to `log` as a table. Clocks
    and caches are left as they are in the step."""
    metrics = sorted(metric for name in counters for metric in METRICS[name][1])
    return [
        ncu, "--clock-control", "none", "--cache-control", "none", "--target-processes", "all",
        "--nvtx", "--nvtx-include", RANGE, "--metrics", ",".join(metrics),
        "--page", "raw", "--csv", "--print-units", "base", "--log-file", log,
    ]  # fmt: skip


def under_ncu(task: CountableTask[Any], control: Control, *, report: Report) -> CountedKernels:
    """The kernels of the task, counted in a process under ncu. Raises NotCounted if ncu is missing, not allowed, or
    fails."""
    ncu = find_ncu()
    if ncu is None:
        raise NotCounted(
            "not_installed",
            "ncu was not found",
            cause="hardware counters are read through Nsight Compute",
            hint="install it and put it into PATH, or give --counters off",
        )
    counters = wanted(known_metrics(ncu))
    if not counters:
        raise NotCounted(
            "not_supported",
            "ncu knows none of the metrics on this device",
            cause="they are those of GPUs of compute capability 7.0 and later",
            hint="look at ncu --query-metrics, or give --counters off",
        )
    report(Progress(stage="counting (each kernel runs several times)"))
    with temporary_folder() as folder:
        log = folder / "counters.csv"
        try:
            under = command(ncu, counters, str(log))
            run(
                UnderNcu(task),
                replace(control, under=under, env={**control.env, "LC_ALL": "C"}, writes=(str(folder),)),
            )
        except StatsNetError as error:
            raise _refused(_text(log), error) from error
        text = _text(log)
    if NO_PERMISSION in text:
        raise _refused(text, None)
    try:
        kernels = read_table(text)
    except FileFormatError as error:
        raise NotCounted(
            "failed",
            "ncu wrote no table of kernels",
            cause=f"{error.cause}: {_last_words(text)}",
            hint="run it by hand on a small program, or give --counters off",
        ) from error
    return CountedKernels(kernels=kernels, tool=_tool(ncu))


def _refused(text: str, error: StatsNetError | None) -> NotCounted:
    if NO_PERMISSION in text:
        return NotCounted(
            "not_permitted",
            "the driver keeps hardware counters from this user",
            cause=NO_PERMISSION,
            hint="have the administrator set NVreg_RestrictProfilingToAdminUsers=0, or give --counters off",
        )
    assert error is not None
    return NotCounted(
        "failed",
        "the step failed under ncu",
        cause=f"{error.message}: {error.cause}",
        hint="give --counters off",
    )


def _text(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""


def _last_words(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("==")]
    return lines[-1] if lines else "it said nothing"


def _tool(ncu: str) -> str | None:
    """`ncu` and its version; None if it does not tell that."""
    try:
        said = subprocess.run([ncu, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    version = re.search(r"Version (\d+(?:\.\d+)*)", said)
    return f"ncu {version[1]}" if version else None
