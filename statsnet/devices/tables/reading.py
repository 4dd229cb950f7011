"""Tables from files and folders, each recognised by its columns; one operator's rows from several files become one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from statsnet.devices.tables import aiconfigurator, deepbench, llmservingsim, miopen, neusight, plain, vidur
from statsnet.devices.tables.checks import understood, without_absurd
from statsnet.devices.tables.csv_file import Format, Tally, header_of
from statsnet.devices.tables.row import Merged, TableRow
from statsnet.devices.tables.words import OPERATOR_DIMS
from statsnet.errors import FileFormatError, UsageError
from statsnet.signatures.operators import ITEM_SIZE

FORMATS: tuple[Format, ...] = (
    *neusight.FORMATS, *aiconfigurator.FORMATS, *deepbench.FORMATS, *miopen.FORMATS, *vidur.FORMATS,
    *llmservingsim.FORMATS, *plain.FORMATS,
)  # fmt: skip

ENDINGS = (".csv", ".csv.gz")
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
ALIKE = 0.7
"""A table with this share of a format's columns, not all of them, is a damaged one; with less it is of another kind."""

Keep = Callable[[TableRow], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What some tables say. `notes` has a sentence for whatever was left out, `wrong` an error for each device whose
    times cannot be in the unit that its columns say."""

    rows: tuple[TableRow, ...]
    notes: tuple[str, ...]
    wrong: Mapping[str, FileFormatError] = field(default_factory=dict)

    def check(self, devices: Iterable[str]) -> None:
        """Raises FileFormatError if the times of one of these devices are in another unit."""
        for device in devices:
            if device in self.wrong:
                raise self.wrong[device]


def read_all(paths: Sequence[Path], keep: Keep | None = None) -> Tables:
    """The tables in `paths` (files, or folders of files); of their rows those that `keep` says, all by default.

    Raises UsageError if a path is missing or no table is found, FileFormatError for a damaged table.
    """
    tally, merged = Tally(), Merged()
    skipped: list[str] = []
    found = False
    for path, asked in csv_files(paths):
        form = recognised(path, asked=asked)
        if form is None:
            skipped.append(path.name)
            continue
        found = True
        rows = (row for row in form.read(path, tally) if keep is None or keep(row))
        for row in without_absurd(path, understood(path, rows, tally), tally):
            merged.add(row)
    if not found:
        given = ", ".join(f"'{path}'" for path in paths)
        raise UsageError(
            f"no table in {given}",
            cause=f"{', '.join(skipped) or 'nothing'} there; known by their columns are the tables of "
            + ", ".join(sorted({f.name.partition(",")[0] for f in FORMATS})),
            hint="name CSV tables with commas, or folders that hold them",
        )
    read = tuple(merged.rows())
    notes = tally.notes() + _never_asked(read)
    notes += [f"not read, no table of operators: {', '.join(sorted(skipped))}"] if skipped else []
    return Tables(rows=read, notes=tuple(notes), wrong=tally.wrong)


def _never_asked(rows: Sequence[TableRow]) -> list[str]:
    """A note on the words of a plain table under which no call of torch is looked up."""
    own = [row for row in rows if row.source == plain.SOURCE and not row.operator.startswith("aten.")]
    unknown = sorted({row.operator for row in own} - OPERATOR_DIMS.keys())
    unknown += sorted({row.dtype for row in own} - ITEM_SIZE.keys())
    if unknown:
        return [f"no call of torch is looked up as {', '.join(unknown)}: a proxy uses none of these times "
                "(docs/how-to/absent-device.md has the words)"]  # fmt: skip
    return []


def recognised(path: Path, *, asked: bool = True) -> Format | None:
    """The format that a table's columns show; of several the one with most columns. None if it is of another kind and
    nobody `asked` for it by name.

    Raises FileFormatError if it lacks some columns of a format, or was asked for and is of no known format.
    """
    header = set(header_of(path))
    if fitting := [f for f in FORMATS if f.columns <= header]:
        return max(fitting, key=lambda f: len(f.columns))
    near = plain.FORMATS if header & plain.UNITS.keys() else FORMATS
    nearest = max(near, key=lambda f: len(f.columns & header) / len(f.columns))
    if len(nearest.columns & header) >= ALIKE * len(nearest.columns):
        lacks = ", ".join(sorted(nearest.columns - header))
        raise FileFormatError(
            f"'{path}' lacks columns of {nearest.name}", cause=f"missing: {lacks}", hint="compare its first line"
        )
    if not asked:
        return None
    if len(header) == 1 and (other := next((c for c in SEPARATORS if c in next(iter(header))), None)):
        raise FileFormatError(
            f"'{path}' is no table with commas",
            cause=f"its fields are separated by {SEPARATORS[other]}", hint="use commas, and points in numbers",
        )  # fmt: skip
    raise FileFormatError(
        f"'{path}' is no table of operators that is known",
        cause=f"its columns: {', '.join(sorted(header)[:12]) or 'none'}",
        hint="convert it to the plain format (docs/how-to/absent-device.md): operator,dtype,device,time_us and dims",
    )


def csv_files(paths: Sequence[Path]) -> list[tuple[Path, bool]]:
    """Files, each with whether it was named itself. A file that is found twice is read once."""
    found: dict[Path, tuple[Path, bool]] = {}
    for path in paths:
        if path.is_dir():
            for file in sorted(p for p in path.iterdir() if p.name.lower().endswith(ENDINGS) and p.is_file()):
                found.setdefault(file.resolve(), (file, False))
        elif path.is_file():
            found[path.resolve()] = (path, True)
        else:
            raise UsageError(f"'{path}' is not there", hint="name a CSV table, or a folder that holds some")
    return list(found.values())
