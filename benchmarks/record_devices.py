"""Which devices do published tables record, and how well are operators of new sizes predicted on them?

    python benchmarks/record_devices.py [TABLES...] [--device NAME ...] [-o profiles_db/devices]

TABLES are folders or files that `statsnet device import` reads. Writes a record for each device whose tables are clean,
an ATTRIBUTION.md beside them, and prints held-out errors by device and kind of operator as a Markdown table, and how
many are good. Records that are there are kept, unless --device names them. Without TABLES it prints alone.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from benchmarks.console import markdown_table, parser, report, start
from statsnet.devices.device_record import DeviceRecord, build_record, load_record, save_record
from statsnet.devices.names import measured_device
from statsnet.devices.record_folder import ENDING
from statsnet.devices.tables.provenance import doubt_of
from statsnet.devices.tables.reading import read_all
from statsnet.errors import UsageError
from statsnet.progress import Progress
from statsnet.signatures.canonical import write_text_atomically

FEWEST = 50
"""Kinds with fewer rows are recorded, but their errors are not shown."""

GOOD = 0.1
"""A median error that is small enough."""

FEWEST_OPERATORS = 100
"""Devices with fewer clean operators (phones) have no record."""


def attribution(records: Iterable[DeviceRecord]) -> str:
    """Markdown: whose measurements the records are made of."""
    sources: dict[str, tuple[set[str], str]] = {}
    for record in records:
        for p in record.sources:
            line = f"[{p.title}]({p.repository}), commit {p.commit}, {p.licence}" if p.repository else p.title
            sources.setdefault(p.source, (set(), line))[0].add(record.device)
    lines = [
        "# Attribution",
        "",
        "The records in this folder are models that were fitted to measurements which these projects published. They",
        "hold no code of theirs, and only those of their numbers that a model needs.",
        "",
        "| source | devices |",
        "|---|---|",
    ]
    lines += [f"| {line} | {', '.join(sorted(devices))} |" for _, (devices, line) in sorted(sources.items())]
    return "\n".join(lines) + "\n"


def errors_table(records: Iterable[DeviceRecord]) -> str:
    """Held-out errors of all kinds with at least FEWEST rows, and of them all."""
    errors = []
    lines = []
    for record in records:
        for m in record.models:
            if m.rows >= FEWEST:
                h = m.held_out
                errors.append(h.median_error)
                kind = [record.device, m.source, m.operator, m.dtype, m.direction, str(m.rows)]
                lines.append([*kind, f"{100 * h.median_error:.1f} %", f"{100 * h.p90_error:.1f} %"])
    header = ("device", "source", "operator", "dtype", "direction", "rows", "median error", "90 % below")
    table = markdown_table(header, lines)
    if not errors:
        return table
    good = sum(error <= GOOD for error in errors)
    return f"{table}\n\n{len(errors)} kinds, {good} of them at most {GOOD:.0%}; median {median(errors):.1%}"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("tables", nargs="*", type=Path)
    options.add_argument("--device", action="append", default=[], metavar="NAME", help="make this record anew")
    options.add_argument("-o", "--output", type=Path, default=Path("profiles_db/devices"))
    given = options.parse_args()
    if given.tables:
        make(given.tables, given.device, given.output)
    elif given.device:
        raise UsageError("no tables are named", hint="name the tables that have the times of --device")
    records = [load_record(path) for path in sorted(given.output.glob(f"*{ENDING}"))]
    print(errors_table(records))


def make(tables: Sequence[Path], devices: Sequence[str], folder: Path) -> None:
    """Write the records that are not in the folder yet, or those of `devices`, and whose tables they are from."""
    report(Progress(stage="reading tables"))
    found = read_all(tables, keep=lambda row: not row.source.startswith("llmservingsim"))
    rows = found.rows
    measured = Counter(d for row in rows for d in row.time_s if not doubt_of(row, d))
    asked = [measured_device(name, measured) for name in devices]
    enough = sorted(d for d, count in measured.items() if count >= FEWEST_OPERATORS)
    wanted = asked or [device for device in enough if not (folder / f"{device}{ENDING}").exists()]
    found.check(wanted)
    for device in wanted:
        try:
            record = build_record(rows, device, report=report)
        except UsageError as error:
            print(error, file=sys.stderr)
            continue
        save_record(folder / f"{device}{ENDING}", record)
    records = [load_record(path) for path in sorted(folder.glob(f"*{ENDING}"))]
    write_text_atomically(folder / "ATTRIBUTION.md", attribution(records))


if __name__ == "__main__":
    start(main)
