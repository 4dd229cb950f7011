"""Table of ROCm/MIOpen's find database: the fastest solver's kernel time of each convolution, cells `us:solver`.

In the directions B (data) and W (weight) the table's (C, H, W) is the output's side and (K, Ho, Wo) the input's. Rows
hold the forward convolution's dims for all directions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from statsnet.devices.tables.csv_file import (
    MICRO,
    Format,
    Record,
    Tally,
    devices_of,
    integers,
    records,
    seconds,
)
from statsnet.devices.tables.row import Direction, TableRow
from statsnet.devices.tables.words import dtype_word, named

SOURCE = "miopen"
_SIZES = ("N", "C", "H", "W", "K", "Ho", "Wo", "fh", "fw", "ph", "pw", "sh", "sw", "dh", "dw", "groups")
COLUMNS = frozenset({"layout", "dtype", "direction", *_SIZES})
DIRECTIONS: dict[str, Direction] = {"F": "forward", "B": "backward_data", "W": "backward_weight"}


def _dims(record: Record) -> tuple[tuple[str, int], ...]:
    n, c, h, w, k, ho, wo, fh, fw, ph, pw, sh, sw, dh, dw, groups = integers([record[s] for s in _SIZES])
    if record["direction"] != "F":
        c, h, w, k = k, ho, wo, c
    return named("convolution", (n, c, h, w, k, fh, fw, ph, pw, sh, sw, dh, dw, groups))


def read(path: Path, tally: Tally) -> Iterator[TableRow]:
    """Its convolutions."""
    devices = devices_of(path, COLUMNS, tally)
    for record in records(path, tally):
        try:
            dims, direction = _dims(record), DIRECTIONS[record["direction"]]
        except (ValueError, KeyError):
            tally.drop(path, "the dims or the direction are not understood")
            continue
        cells = ((d, seconds(record[c].partition(":")[0], MICRO, path, tally)) for c, d in devices.items())
        times = {device: time_s for device, time_s in cells if time_s is not None}
        if times:
            yield TableRow(
                source=SOURCE, operator="convolution", dtype=dtype_word(record["dtype"]), dims=dims,
                variant=record["layout"], direction=direction, time_s=times,
            )  # fmt: skip


FORMATS = (Format(name="MIOpen's find database", columns=COLUMNS, read=read),)
