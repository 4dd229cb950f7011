"""Tables in CSV files. Each row is a frozen dataclass, each column one of its fields; an empty cell is None."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from statsnet.errors import FileFormatError
from statsnet.measure.process import measuring_environment
from statsnet.signatures.canonical import canonical_csv, write_json_atomically, write_text_atomically

Row = TypeVar("Row")


def read(path: Path, row_type: type[Row]) -> list[Row]:
    """Raises FileFormatError if the file cannot be read or holds another table."""
    try:
        header, *lines = csv.reader(path.read_text(encoding="utf-8").splitlines())
        if header != _columns(row_type):
            raise ValueError(f"its columns are {', '.join(header)}")
        rows = [{name: text or None for name, text in zip(header, line, strict=True)} for line in lines]
        return [msgspec.convert(row, row_type, strict=False) for row in rows]
    except (OSError, ValueError, csv.Error) as error:
        raise FileFormatError(
            f"'{path}' is no table of {row_type.__name__}s",
            cause=str(error),
            hint="benchmarks/results/README.md says which program prints which file",
        ) from error


def read_kept(path: Path, row_type: type[Row]) -> list[Row]:
    """As `read`; no rows if there is no file yet."""
    return read(path, row_type) if path.exists() else []


def write(
    path: Path,
    row_type: type[Row],
    rows: Sequence[Row],
    *,
    one_machine: bool = True,
    environment: Mapping[str, Any] | None = None,
) -> None:
    """Write the table, with nine significant digits. If all of it is of one machine, its environment stands beside: of
    this machine, unless another is given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if one_machine:
        write_json_atomically(path.parent / "environment.json", environment or measuring_environment())
    write_text_atomically(path, table_text(row_type, rows))


def table_text(row_type: type[Row], rows: Sequence[Row]) -> str:
    return canonical_csv(_columns(row_type), map(astuple, rows))  # type: ignore[arg-type]


def _columns(row_type: type[Row]) -> list[str]:
    return [field.name for field in fields(row_type)]  # type: ignore[arg-type]
