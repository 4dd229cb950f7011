"""A table of one's own: `operator,dtype,device,time_us` and a column for each dim.

One row is one operator on one device. The time may be `time_s`, `time_ms` or `time_us`. `variant` and `direction` may
be given. All other columns are dims (whole numbers; an empty cell: this operator has no such dim, or its usual value).
Of an operator of ours, columns that are none of its dims are not looked at.
docs/how-to/absent-device.md lists each operator's dims.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from statsnet.devices.tables.csv_file import Format, Record, Tally, device_of, header_of, integers, records, seconds
from statsnet.devices.tables.row import Direction, Merged, TableRow
from statsnet.devices.tables.words import DEFAULTS, OPERATOR_DIMS, dtype_word
from statsnet.errors import FileFormatError

SOURCE = "plain"
COLUMNS = frozenset({"operator", "dtype", "device"})
UNITS = {"time_s": 1.0, "time_ms": 1e-3, "time_us": 1e-6}
_WORDS = COLUMNS | UNITS.keys() | {"variant", "direction", "source"}
"""Columns that are no dims. A `source` is not looked at: whoever wrote the table, its times are not another's."""


def _dims(operator: str, record: Record, columns: list[str]) -> tuple[tuple[str, int], ...]:
    wanted = OPERATOR_DIMS.get(operator)
    given = {c: integers((record[c],))[0] for c in columns if record[c] and (wanted is None or c in wanted)}
    if wanted is None:
        return tuple(given.items())
    if missing := [name for name in wanted if name not in given and name not in DEFAULTS]:
        raise ValueError(f"lacks {missing[0]}")
    return tuple((name, given.get(name, DEFAULTS.get(name, 0))) for name in wanted)


def _variant(operator: str, text: str) -> str:
    """Transposes and layouts in capital letters, as calls are asked for."""
    return text.upper() if operator in ("gemm", "convolution") and text.isalpha() else text


def read(path: Path, tally: Tally) -> Iterator[TableRow]:
    """Its operators. Raises FileFormatError if it has no column of times, or several."""
    header = header_of(path)
    units = [c for c in header if c in UNITS]
    if len(units) != 1:
        raise FileFormatError(
            f"'{path}' has {'several columns' if units else 'no column'} of times",
            cause=f"columns: {', '.join(header)}", hint="name one column time_s, time_ms or time_us",
        )  # fmt: skip
    columns = [c for c in header if c and c not in _WORDS]
    directions = get_args(Direction)
    merged = Merged()
    for record in records(path, tally, needed=("operator", "dtype", "device")):
        operator, direction = record["operator"].lower(), record.get("direction") or "forward"
        try:
            dims = _dims(operator, record, columns)
        except ValueError as error:
            tally.drop(path, f"the dims are not understood ({operator} {error})")
            continue
        if direction not in directions:
            tally.drop(path, f"the direction is none of {', '.join(directions)}")
            continue
        device = device_of(record["device"], path, tally)
        time_s = seconds(record[units[0]], UNITS[units[0]], path, tally)
        if device is not None and time_s is not None:
            variant = _variant(operator, record.get("variant", ""))
            key = (SOURCE, operator, dtype_word(record["dtype"]), dims, variant, direction)
            merged.add_time(key, device, time_s)  # type: ignore[arg-type]
    yield from merged.rows()


FORMATS = (Format(name="plain", columns=COLUMNS, read=read),)
