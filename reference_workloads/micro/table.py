"""Tables of operator sizes: a row is an operator, a column one of its dimensions."""

from __future__ import annotations

import csv
from pathlib import Path

FOLDER = Path(__file__).parent / "tables"

Row = dict[str, str]


def rows(name: str, every: int = 1, sets: tuple[str, ...] = ()) -> list[Row]:
    """Each `every`-th row of a table, or of its rows that belong to one of these sets."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        found = [row for row in csv.DictReader(file) if not sets or row["set"] in sets]
    return found[::every]


def size(full: str | int, shrink: int, least: int = 1) -> int:
    """A dimension divided by `shrink`, but at least `least` unless it is smaller anyway."""
    return max(int(full) // shrink, min(int(full), least))
