"""CSV tables from outside, packed with gzip or not, read row by row with what is wrong in them counted."""

from __future__ import annotations

import contextlib
import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from statsnet.devices.names import canonical_name
from statsnet.devices.tables.row import TableRow
from statsnet.errors import FileFormatError, UsageError
from statsnet.signatures.gzipped import open_unpacked, reading

MICRO, MILLI = 1e-6, 1e-3

Record = dict[str, str]


@dataclass(slots=True)
class Tally:
    """Cells and rows that were left out, by file and reason; and what is wrong with all times of a device."""

    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: dict[str, FileFormatError] = field(default_factory=dict)

    def drop(self, path: Path, why: str, count: int = 1) -> None:
        self.dropped[(path.name, why)] += count

    def notes(self) -> list[str]:
        """One sentence for each file and reason."""
        dropped = [f"{name}: {n} {'value was' if n == 1 else 'values were'} left out: {why}"
                   for (name, why), n in sorted(self.dropped.items())]  # fmt: skip
        return dropped + [f"{self.wrong[device].message}: {self.wrong[device].cause}" for device in sorted(self.wrong)]


def _no_rows(_path: Path, _tally: Tally) -> Iterator[TableRow]:
    return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A kind of table, recognised by its columns. `read` gives its operators."""

    name: str
    columns: frozenset[str]
    read: Callable[[Path, Tally], Iterator[TableRow]] = _no_rows


@contextlib.contextmanager
def opened(path: Path) -> Iterator[io.TextIOBase]:
    """The text of a table. Raises FileFormatError if it cannot be read, while it is read as well."""
    try:
        with reading(path), io.TextIOWrapper(open_unpacked(path), encoding="utf-8-sig", newline="") as text:
            yield text
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(
            f"'{path}' is no CSV table", cause=str(error), hint="give a CSV file, packed with gzip or not"
        ) from error


def header_of(path: Path) -> tuple[str, ...]:
    """The names of a table's columns; empty for an empty file."""
    with opened(path) as text:
        return tuple(name.strip() for name in next(csv.reader(text), []))


def records(path: Path, tally: Tally, *, needed: Sequence[str] = ()) -> Iterator[Record]:
    """The rows by column. Rows that are shorter or longer than the header, or lack one of `needed`, are counted as
    left out. Raises FileFormatError if two columns have one name."""
    with opened(path) as text:
        reader = csv.reader(text)
        header = [name.strip() for name in next(reader, [])]
        if twice := sorted(name for name, count in Counter(header).items() if name and count > 1):
            raise FileFormatError(
                f"'{path}' has several columns {twice[0]}", cause="nothing tells which holds", hint="keep one of them"
            )
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                tally.drop(path, "the row has not as many fields as the header")
                continue
            record = {name: cell.strip() for name, cell in zip(header, row, strict=True)}
            if any(not record[name] for name in needed):
                tally.drop(path, "a field that is needed is empty")
                continue
            yield record


def device_of(text: str, path: Path, tally: Tally) -> str | None:
    """The device's canonical name; None if the text, counted, names none."""
    try:
        return canonical_name(text)
    except UsageError:
        tally.drop(path, "the device's name has no letter and no digit, or too many")
        return None


def devices_of(path: Path, own: frozenset[str], tally: Tally) -> dict[str, str]:
    """Canonical names of a table's devices by their columns, which are all columns but the format's `own` and those
    that count rows. Raises FileFormatError if two columns are of one device."""
    columns = (column for column in header_of(path) if column and column not in own and not _COUNTER.match(column))
    named = {column: name for column in columns if (name := device_of(column, path, tally)) is not None}
    first = {name: column for column, name in reversed(named.items())}
    for column, name in named.items():
        if first[name] != column:
            raise FileFormatError(
                f"'{path}' has two columns of times of {name}",
                cause=f"'{first[name]}' and '{column}'", hint="keep one of them in each table",
            )  # fmt: skip
    return named


_COUNTER = re.compile(r"(?i)(?:unnamed: ?\d+|index)\Z")
"""What pandas calls a column that counts the rows."""


def seconds(text: str, unit_s: float, path: Path, tally: Tally) -> float | None:
    """A cell's time in seconds; None if it is empty or, counted, no positive finite number."""
    if not text:
        return None
    try:
        value = float(text) * unit_s
    except ValueError:
        tally.drop(path, "the time is no number")
        return None
    if not math.isfinite(value) or value <= 0:
        tally.drop(path, "the time is zero, negative or not finite")
        return None
    return value


def integers(texts: Sequence[str]) -> tuple[int, ...]:
    """Sizes. Raises ValueError if one is no whole number, or negative."""
    values = tuple(int(text) if text.isdigit() else _whole(text) for text in texts)
    if any(v < 0 for v in values):
        raise ValueError(f"negative size in {values}")
    return values


def _whole(text: str) -> int:
    value = float(text)
    if not value.is_integer():
        raise ValueError(f"{text} is no whole number")
    return int(value)
