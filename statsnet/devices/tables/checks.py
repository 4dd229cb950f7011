"""What no operator and no device can have: rows with such words or sizes, and times, are left out and counted; a whole
column of such times means that the unit is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from statsnet.devices.operator_work import work_of
from statsnet.devices.tables.csv_file import Tally
from statsnet.devices.tables.row import TableRow
from statsnet.devices.tables.units import FEW, Units
from statsnet.devices.tables.words import LONGEST_WORD, OPERATOR_DIMS, WORK, check_dims
from statsnet.errors import FileFormatError

MOST_FLOPS, MOST_BYTES = 4e16, 2e14
"""FLOP/s and byte/s that no single device of today reaches, with Winograd's savings and caches counted in."""

WRONG_SHARE = 0.05


def understood(path: Path, rows: Iterable[TableRow], tally: Tally) -> Iterator[TableRow]:
    """The rows whose words and sizes are an operator's. Others are counted."""
    for row in rows:
        if fault := fault_of(row):
            tally.drop(path, fault)
        else:
            yield row


def fault_of(row: TableRow) -> str:
    """Why a row's words or sizes are no operator's; empty if they are."""
    dims = dict(row.dims)
    if any(len(word) > LONGEST_WORD for word in (row.operator, row.dtype, row.variant, *dims)):
        return f"an operator, a dtype, a variant or a dim has more than {LONGEST_WORD} characters"
    try:
        check_dims(row.operator, dims)
        work_of(row.operator, row.dtype, dims, row.variant)
    except (ValueError, OverflowError):
        return "a size is zero or too large, or no size of this operator"
    return ""


def without_absurd(path: Path, rows: Iterable[TableRow], tally: Tally) -> Iterator[TableRow]:
    """The rows without times that are beyond any device, which are counted. If more than WRONG_SHARE of a device's
    times are, or if they are in another unit, the tally is told: nobody may want this device."""
    seen: Counter[str] = Counter()
    fast: Counter[str] = Counter()
    units: dict[str, Units] = {}
    for row in rows:
        dims = dict(row.dims)
        if row.operator not in OPERATOR_DIMS and dims.keys() != {*WORK}:
            yield row  # of what its dims say of its work, nothing is known
            continue
        flops, nbytes = work_of(row.operator, row.dtype, dims, row.variant)
        least_s = max(flops / MOST_FLOPS, nbytes / MOST_BYTES)
        seen.update(row.time_s.keys())
        for device, time_s in row.time_s.items():
            if device not in units:
                units[device] = Units(device)
            units[device].add(row, time_s, flops, nbytes)
        if wrong := [device for device, time_s in row.time_s.items() if time_s < least_s]:
            fast.update(wrong)
            kept = {d: t for d, t in row.time_s.items() if d not in wrong}
            if not kept:
                continue
            yield replace(row, time_s=kept)
        else:
            yield row
    for device, count in fast.items():
        if count > WRONG_SHARE * seen[device] and seen[device] >= FEW:
            why = f"{count} of {seen[device]} times are shorter than any device could be"
            tally.wrong.setdefault(device, _wrong_unit(path, device, why))
        tally.drop(path, "the time is shorter than any device could be", count)
    for device, unit in units.items():
        for fault in unit.faults():
            tally.wrong.setdefault(device, _wrong_unit(path, device, fault))


def _wrong_unit(path: Path, device: str, why: str) -> FileFormatError:
    return FileFormatError(
        f"the times of {device} in '{path}' are not in the unit that the table's columns say",
        cause=why, hint="convert the table to that unit, give it as a plain table with time_s, time_ms or time_us, or "
        "take the times as they are with --keep-doubtful",
    )  # fmt: skip
