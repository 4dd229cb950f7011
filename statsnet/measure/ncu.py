"""Nsight Compute's command line, `ncu`: which counters are asked for, and how its tables are read.

Kernels run under it one by one, many times each: its times are not those of the step, and only its counters are used.
Not run on a GPU yet: written from Nsight Compute's documentation (command line interface; profiling guide; the
comparison with nvprof's metrics, whose stall reasons AIBench reports).
"""

from __future__ import annotations

import csv
import functools
import os
import shutil
import subprocess
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from statsnet.signatures.gpu import COUNTERS

RANGE = "statsnet_step"
"""The NVTX range around the step that is counted. It is one of start and end, which holds for all threads: autograd
launches the backward kernels from threads of its own."""

WARM_UPS = 3
"""Of a step whose kernels are counted: libraries choose them in the first ones."""

THREADS_IN_A_WARP = 32
PERCENT = 1 / 100

METRICS: dict[str, tuple[float, tuple[str, ...]]] = {
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
        f"stall_{name}": (
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
"""Each of COUNTERS: ncu's metrics, which are added up, and the factor to a part of 1, a rate, or bytes."""

assert METRICS.keys() == {*COUNTERS}

NO_PERMISSION = "ERR_NVGPUCTRPERM"
"""How ncu says that the driver gives counters to administrators alone."""

_PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/ncu")
_COLUMNS = ("ID", "Kernel Name")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedKernel:
    """A kernel in its order, by its full name; counters by name, None where the device gives no value."""

    name: str
    values: dict[str, float | None]


def run_in_range(step: Callable[[], object], device: str) -> None:
    """Run the step WARM_UPS times, then once within RANGE: the kernels that it launches then are those that ncu
    counts."""
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
    """The base names of the metrics that ncu knows of this machine's GPU; None where it cannot say.

    It refuses a run as a whole if one metric is unknown to it.
    """
    try:
        done = subprocess.run(
            [ncu, "--query-metrics"], capture_output=True, text=True, check=False, timeout=120
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = {line.split()[0] for line in done.stdout.splitlines() if "__" in line.partition(" ")[0]}
    return found or None


def wanted(known: Collection[str] | None) -> list[str]:
    """Counters whose metrics are all known."""
    return [
        name
        for name in COUNTERS
        if known is None or all(metric.partition(".")[0] in known for metric in METRICS[name][1])
    ]


def command(ncu: str, counters: Sequence[str], log: str) -> list[str]:
    """What to put before a program's command so that the kernels in RANGE are counted and written to `log` as a
    table. Clocks and caches are left as they are in the step."""
    metrics = sorted(metric for name in counters for metric in METRICS[name][1])
    return [
        ncu, "--clock-control", "none", "--cache-control", "none", "--target-processes", "all",
        "--nvtx", "--nvtx-include", RANGE, "--metrics", ",".join(metrics),
        "--page", "raw", "--csv", "--print-units", "base", "--log-file", log,
    ]  # fmt: skip


def read_table(text: str, counters: Sequence[str]) -> list[CountedKernel]:
    """The kernels of ncu's raw page as CSV: a line of names, a line of units, a line for each kernel.

    Lines that begin with `==` are ncu's own messages. Raises ValueError for a text without such a table.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("==")]
    rows = csv.reader(lines)
    names = next(rows, [])
    units = dict(zip(names, next(rows, []), strict=False))
    missing = [name for name in _COLUMNS if name not in names]
    if missing:
        raise ValueError(f"ncu's table has no column {missing[0]!r}")
    return [_counted(dict(zip(names, row, strict=True)), units, counters) for row in rows]


def _counted(row: dict[str, str], units: dict[str, str], counters: Sequence[str]) -> CountedKernel:
    values: dict[str, float | None] = {}
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
