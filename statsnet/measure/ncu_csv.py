"""Tables of Nsight Compute: hardware counters by kernel, from `ncu --csv` (details page or raw page).

Both pages are read in any version's columns and in any units. Follows Nsight Compute's documentation (command line
interface; profiling guide; the comparison with nvprof's metrics, whose stall reasons AIBench reports).
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from statsnet.errors import FileFormatError
from statsnet.signatures.gpu import COUNTERS, CounterName
from statsnet.signatures.gzipped import read_unpacked

MOST_BYTES = 2**28
"""Enough for 9,000 kernels: each takes 30 kB on a details page with all sections. A file is in memory three times, as
bytes, as text and as lines."""

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

OTHER_NAMES: dict[CounterName, tuple[tuple[float, str], ...]] = {
    "achieved_occupancy": ((PERCENT, "Achieved Occupancy"),),
    "ipc": ((1.0, "Executed Ipc Active"),),
    "issue_slot_utilization": ((PERCENT, "Issue Slots Busy"),),
    "sm_utilization": ((PERCENT, "Compute (SM) Throughput"), (PERCENT, "SM Throughput"), (PERCENT, "SOL SM")),
    "tensor_core_utilization": ((PERCENT, "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"),),
    "dram_utilization": (
        (PERCENT, "DRAM Throughput"), (PERCENT, "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"),
    ),
    "warp_execution_efficiency": ((1 / THREADS_IN_A_WARP, "Avg. Active Threads Per Warp"),),
    "warp_nonpredicated_execution_efficiency": (
        (1 / THREADS_IN_A_WARP, "Avg. Not Predicated Off Threads Per Warp"),
    ),
    "l2_hit_rate": ((PERCENT, "L2 Hit Rate"),),
    "dram_bytes": ((1.0, "dram__bytes.sum"),),
}  # fmt: skip
"""Where METRICS are not in the table: labels of the details page, and metrics of other versions or devices."""

_READ = frozenset(
    [*(part for _, parts in METRICS.values() for part in parts), *(n for o in OTHER_NAMES.values() for _, n in o)]
)
"""All names that a counter may be read from."""

SEPARATORS = ",;\t"
"""Of columns: a spreadsheet may have saved the table again."""

ReadNumber = Callable[[str, str], float | None]
"""From a value's text and its unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedKernel:
    """A kernel's full name, and its counters by name; None if the device gives no value."""

    name: str
    values: Mapping[CounterName, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedKernels:
    """What ncu counted, kernels in their order. `tool` is ncu with its version; None if that is not known."""

    kernels: Sequence[CountedKernel]
    tool: str | None


def read_counters(path: Path) -> CountedKernels:
    """The kernels in a table that `ncu --csv` wrote, in their order, with their counters; `.gz` is unpacked.

    Raises FileFormatError for what is no such table.
    """
    kernels = read_table(read_unpacked(path, most=MOST_BYTES).decode("utf-8", errors="replace"), place=str(path))
    if not kernels:
        raise FileFormatError(
            f"{path} holds no kernel",
            cause="the table has its columns, but no rows",
            hint="look at ncu's messages: a filter (--kernel-name, --nvtx-include) may have left all kernels out",
        )
    return CountedKernels(kernels=kernels, tool=None)


def read_table(text: str, *, place: str = "ncu's output") -> list[CountedKernel]:
    """The kernels in ncu's table, which may stand among its messages and the program's own output.

    Counters that the table lacks are None. Raises FileFormatError, which names `place`, if there is no table.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    begin = next((i for i, line in enumerate(lines) if _is_header(line)), None)
    if begin is None:
        raise _no_table(text, place)
    lines = [line for line in lines[begin:] if line.strip() and not line.startswith("==")]
    separator = max(SEPARATORS, key=lines[0].count)
    number = partial(_number, has_decimal_comma=_has_decimal_commas(lines, separator))
    rows = csv.reader(lines, delimiter=separator)
    try:
        names = [name.strip() for name in next(rows)]
        page = _details_page if "Metric Name" in names else _raw_page
        return _in_order(page(names, rows, number))
    except csv.Error as error:
        raise FileFormatError(
            f"{place} is a damaged table", cause=f"row {rows.line_num}: {error}", hint="let ncu write it once more"
        ) from error


def _is_header(line: str) -> bool:
    if "Kernel Name" not in line or line.startswith("=="):
        return False
    columns = {name.strip().strip('"') for name in re.split(f"[{SEPARATORS}]", line)}
    return {"ID", "Kernel Name"} <= columns


def _has_decimal_commas(lines: Sequence[str], separator: str) -> bool:
    """Whether a value, alone in its cell, has a comma that groups no thousands: ncu writes numbers as the language asks
    for that is set."""
    begin, end = ('"', '"') if separator == "," else (f'(?:^|["{separator}])', f'(?:$|["{separator}])')
    number = r"(?:\d+,(?:\d{1,2}|\d{4,})|0,\d+|\d{1,3}(?:[.\s]\d{3})+,\d+)"
    value = re.compile(rf"{begin}\s*[-+]?{number}\s*{end}")
    return any(value.search(line) for line in lines)


def _no_table(text: str, place: str) -> FileFormatError:
    no_columns = "no line names the columns ID and Kernel Name"
    again = "ncu --csv --page raw ... on the program, or ncu --import REPORT --csv --page raw on a report"
    if not text.strip():
        return FileFormatError(f"{place} is empty", cause="ncu wrote nothing into it", hint=again)
    if "\0" in text[:4096]:
        return FileFormatError(
            f"{place} is no table", cause="it is binary, like ncu's own reports (.ncu-rep)", hint=again
        )
    if re.search(r"^\s*Section: |^==PROF== Profiling", text, re.MULTILINE):
        return FileFormatError(
            f"{place} is ncu's text output, not its table",
            cause=no_columns,
            hint=again,
        )
    return FileFormatError(f"{place} is no table of Nsight Compute", cause=no_columns, hint=again)


Numbered = tuple[int, CountedKernel]
"""A kernel and its place among those that ran."""


def _in_order(kernels: Iterable[Numbered]) -> list[CountedKernel]:
    """As they ran: somebody may have sorted the table. Where several processes count from 0, as they stand."""
    found = list(kernels)
    if len({number for number, _ in found}) == len(found):
        found.sort(key=lambda numbered: numbered[0])
    return [kernel for _, kernel in found]


def _place(cells: Mapping[str, str]) -> int | None:
    text = cells.get("ID", "").strip()
    return int(text) if text.isdecimal() and len(text) < 20 else None


def _details_page(names: list[str], rows: Iterable[list[str]], number: ReadNumber) -> Iterator[Numbered]:
    """A line for each metric of each kernel, in any order; lines of rules have no metric."""
    kernels: dict[tuple[str, int, str], dict[str, float]] = {}
    for row in rows:
        cells = dict(zip(names, row, strict=False))
        if (place := _place(cells)) is None:
            continue  # the program's own output
        metrics = kernels.setdefault((cells.get("Process ID", ""), place, cells.get("Kernel Name", "")), {})
        metric = cells.get("Metric Name", "")
        value = number(cells.get("Metric Value", ""), cells.get("Metric Unit", "")) if metric in _READ else None
        if value is not None:
            metrics.setdefault(metric, value)
    for (_, place, kernel), metrics in kernels.items():
        yield place, _kernel(kernel, metrics)


def _raw_page(names: list[str], rows: Iterable[list[str]], number: ReadNumber) -> Iterator[Numbered]:
    """A line of units, then a line for each kernel."""
    units: dict[str, str] = {}
    for row in rows:
        cells = dict(zip(names, row, strict=False))
        if "ID" not in cells:
            continue  # the program's own output
        if not cells["ID"].strip():
            units = cells
        elif (place := _place(cells)) is not None:
            found = {name: number(text, units.get(name, "")) for name, text in cells.items() if name in _READ}
            metrics = {name: v for name, v in found.items() if v is not None}
            yield place, _kernel(cells.get("Kernel Name", ""), metrics)


def _kernel(name: str, metrics: Mapping[str, float]) -> CountedKernel:
    """From ncu's own numbers in base units: bytes, seconds, hertz; percent stay percent."""
    return CountedKernel(name=name, values={counter: _counter(counter, metrics) for counter in COUNTERS})


def _counter(name: CounterName, metrics: Mapping[str, float]) -> float | None:
    factor, parts = METRICS[name]
    known = [metrics[part] for part in parts if part in metrics]
    if len(known) == len(parts):
        value = factor * sum(known)
        return min(value, 1.0) if name == "l2_hit_rate" else value  # sectors of different passes: 104 % was seen
    return next((f * metrics[other] for f, other in OTHER_NAMES.get(name, ()) if other in metrics), None)


_PREFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}

_UNIT = re.compile(
    r"(?P<prefix>[numkgtp]?)(?P<binary>i?)(?P<unit>byte|second|sec|s|hz|inst|cycle|bit|flop|b)s?", re.IGNORECASE
)


def _scale(unit: str) -> float:
    """Factor to base units: `Kbyte` and `KB` 1e3, `Mibyte` 2^20, `us` 1e-6, `cycle/nsecond` 1e9, `%` 1."""
    above, _, below = unit.strip().partition("/")
    return _prefix(above) / _prefix(below)


def _prefix(unit: str) -> float:
    match = _UNIT.fullmatch(unit)
    if match is None:
        return 1.0
    prefix = match["prefix"].lower()  # its case differs among versions; seconds are never mega, nor bytes milli
    if match["binary"]:
        return float(1024 ** (" kmgtp".find(prefix)))
    return _PREFIXES["M" if prefix == "m" and not match["unit"].lower().startswith("s") else prefix]


LONGEST_NUMBER = 60
"""Letters. To search a longer text for a number takes the square of its length."""

_NUMBER = re.compile(r"[-+]?[\d,]*\.?\d+(?:[eE][-+]?\d+)?|[-+]?[\d,]+\.?")


def _number(text: str, unit: str, *, has_decimal_comma: bool) -> float | None:
    """`1,205.00` or `1.205,00` -> 1205.0, in base units; None for `n/a` and the like."""
    if len(text) > LONGEST_NUMBER:
        return None
    text = re.sub(r"[\s'\u2019]", "", text)
    if has_decimal_comma:
        text = text.replace(".", "").replace(",", ".")
    if not _NUMBER.fullmatch(text):
        return None
    try:
        number = float(text.replace(",", "")) * _scale(unit)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
