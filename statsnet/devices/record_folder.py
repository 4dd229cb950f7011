"""The records that came with StatsNet or lie in a database: `devices/<name>.json.gz`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from statsnet.devices.device_record import DeviceRecord, load_record, read_record
from statsnet.devices.names import device_named
from statsnet.signatures.database import ProfilesDB

FOLDER, ENDING = "devices", ".json.gz"

RECORD = "device.json"
"""A file in an environment's folder of the database: a signature whose clusters are operators timed one by one."""


def record_paths(profiles: Path) -> dict[str, Path]:
    """The records in a database's folder by their devices."""
    folder = profiles / FOLDER
    return {path.name.removesuffix(ENDING): path for path in sorted(folder.glob(f"*{ENDING}"))}


def record_named(name: str, profiles: Path) -> DeviceRecord:
    """The record that `name` stands for: a file, or a device of the database.

    Raises UsageError if it names none or several, FileFormatError if the file is damaged.
    """
    if is_record_file(name):
        return load_record(Path(name))
    paths = record_paths(profiles)
    return load_record(paths[device_named(name, paths.keys())])


def load_records(profiles: Path) -> list[DeviceRecord]:
    """All records of a database, by name. Raises FileFormatError if one is damaged."""
    return [load_record(path) for path in record_paths(profiles).values()]


def listed_records(profiles: Path) -> list[DeviceRecord]:
    """As `load_records`, but their models are not tried: for who only wants to know what there is."""
    return [read_record(path) for path in record_paths(profiles).values()]


def recorded_folders(db: ProfilesDB) -> list[str]:
    """The environments of the database, sorted: their profiles and records say how long operators took there."""
    return sorted({path.parent.name for path in db.path.glob(f"*/{RECORD}")} | {e.environment for e in db.entries})


def is_record_file(name: str) -> bool:
    """Whether a name is a file's."""
    return name.endswith((".json", ".json.gz"))


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
