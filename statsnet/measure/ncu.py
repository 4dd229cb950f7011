"""Nsight Compute's command line, `ncu`: which counters are asked for, and how its tables are read.

Under ncu, kernels run one by one, many times each. So its times are not those of the step; only its counters are used.
This file has not run on a GPU yet. It follows Nsight Compute's documentation (command line interface; profiling guide;
the comparison with nvprof's metrics, whose stall reasons AIBench reports).
"""

from __future__ import annotations

import csv
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from statsnet.errors import MeasurementError, StatsNetError
from statsnet.measure.control import DEFAULT, Control
from statsnet.measure.process import run
from statsnet.measure.task import CountableTask, UnderNcu
from statsnet.progress import Progress, Report, silent
from statsnet.signatures.gpu import COUNTERS, CounterName, Reason

RANGE = "statsnet_step"
"""The NVTX range around the step that is counted. It is a start/end range, which covers all threads: autograd launches
the backward kernels from threads of its own."""

WARM_UPS = 3
"""Steps before the one that is counted: libraries choose their kernels in the first steps."""

THREADS_IN_A_WARP = 32
PERCENT = 1 / 100

METRICS: dict[CounterName, tuple[float, tuple[str, ...]]] = {
    "achieved_occupancy": (PERCENT, ("sm__warps_active.avg.pct_of_peak_sustained_active",)),
    "ipc": (1.0, ("sm__inst_executed.avg.per_cycle_active",)),
    "issue_slot_utilization": (PERCENT, ("sm__inst_issued.avg.pct_of_peak_sustained_active",)),
    "sm_utilization": (PERCENT, ("sm__throughput.avg.pct_of_peak_sustained_elapsed",)),
    "tensor_core_utilization": (PERCENT, ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",)),
    "dram_utilization": (PERCENT, ("dram__throughput.avg.pct_of_peak_sustained_elapsed",)),
    "global_load_efficiency": (PERCENT, ("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",)),
    "global_store_efficiency": (PERCENT, ("smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct",)),
    "warp_execution_efficiency": (
        1 / THREADS_IN_A_WARP,
        ("smsp__thread_inst_executed_per_inst_executed.ratio",),
    ),
    "warp_nonpredicated_execution_efficiency": (
        1 / THREADS_IN_A_WARP,
        ("smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",),
    ),
    "l2_hit_rate": (PERCENT, ("lts__t_sector_hit_rate.pct",)),
    "dram_bytes": (1.0, ("dram__bytes_read.sum", "dram__bytes_write.sum")),
    **{
        cast(CounterName, f"stall_{name}"): (
            PERCENT,
            tuple(f"smsp__warp_issue_stalled_{reason}_per_warp_active.pct" for reason in reasons),
        )
        for name, reasons in {
            "instruction_fetch": ("no_instruction",),
            "execution_dependency": ("short_scoreboard", "wait"),
            "memory_dependency": ("long_scoreboard",),
            "texture": ("tex_throttle",),
            "synchronization": ("barrier", "membar"),
            "constant_memory_dependency": ("imc_miss",),
            "pipe_busy": ("math_pipe_throttle", "mio_throttle"),
            "memory_throttle": ("drain", "lg_throttle"),
        }.items()
    },
}
"""For each of COUNTERS: ncu's metrics, which are added up, and the factor that makes them a share, a rate or bytes."""

assert METRICS.keys() == {*COUNTERS}

NO_PERMISSION = "ERR_NVGPUCTRPERM"
"""ncu's message if the driver gives counters to administrators only."""

_PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/ncu")
_COLUMNS = ("ID", "Kernel Name")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedKernel:
    """A kernel's full name, and its counters by name; None if the device gives no value."""

    name: str
    values: dict[CounterName, float | None]


class NotCounted(MeasurementError):
    """`why` is the word for the reason in a signature."""

    def __init__(self, why: Reason, message: str, *, cause: str, hint: str) -> None:
        super().__init__(message, cause=cause, hint=hint)
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedKernels:
    """What ncu counted, kernels in their order, and ncu's version."""

    kernels: Sequence[CountedKernel]
    tool: str


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


def read_table(text: str, counters: Sequence[CounterName]) -> list[CountedKernel]:
    """The kernels in ncu's raw page as CSV: a line of names, a line of units, then a line for each kernel.

    Lines that begin with `==` are ncu's own messages. Raises ValueError if there is no such table.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("==")]
    rows = csv.reader(lines)
    names = next(rows, [])
    units = dict(zip(names, next(rows, []), strict=False))
    missing = [name for name in _COLUMNS if name not in names]
    if missing:
        raise ValueError(f"ncu's table has no column {missing[0]!r}")
    return [_counted(dict(zip(names, row, strict=True)), units, counters) for row in rows]


def _counted(row: dict[str, str], units: dict[str, str], counters: Sequence[CounterName]) -> CountedKernel:
    values: dict[CounterName, float | None] = {}
    for name in counters:
        factor, metrics = METRICS[name]
        parts = [_number(row.get(metric, ""), units.get(metric, "")) for metric in metrics]
        known = [part for part in parts if part is not None]
        values[name] = factor * sum(known) if len(known) == len(parts) else None
    return CountedKernel(name=row["Kernel Name"], values=values)


_BYTES = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


def _number(text: str, unit: str) -> float | None:
    """`1,205.00` -> 1205.0; None for `n/a` and the like."""
    try:
        return float(text.replace(",", "")) * _BYTES.get(unit, 1.0)
    except ValueError:
        return None


def under_ncu(task: CountableTask[Any], control: Control = DEFAULT, *, report: Report = silent) -> CountedKernels:
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
    with tempfile.TemporaryDirectory(prefix="statsnet-") as folder:
        log = Path(folder, "counters.csv")
        try:
            run(
                UnderNcu(task),
                replace(control, under=command(ncu, counters, str(log)), env={**control.env, "LC_ALL": "C"}),
            )
        except StatsNetError as error:
            raise _refused(_text(log), error) from error
        text = _text(log)
    if NO_PERMISSION in text:
        raise _refused(text, None)
    try:
        kernels = read_table(text, counters)
    except ValueError as error:
        raise NotCounted(
            "failed",
            "ncu wrote no table of kernels",
            cause=f"{error}: {_last_words(text)}",
            hint="run it by hand on a small program, or give --counters off",
        ) from error
    return CountedKernels(kernels=kernels, tool=f"ncu {_version(ncu)}")


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


def _version(ncu: str) -> str:
    try:
        said = subprocess.run([ncu, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    version = re.search(r"Version (\d+(?:\.\d+)*)", said)
    return version[1] if version else "0"
