"""The records that came with StatsNet or lie in a database: `devices/<name>.json.gz`."""

from __future__ import annotations

from pathlib import Path

from statsnet.devices.device_record import DeviceRecord, load_record, read_record
from statsnet.signatures.database import ProfilesDB

FOLDER, ENDING = "devices", ".json.gz"

RECORD = "device.json"
"""A file in an environment's folder of the database: a signature whose clusters are operators timed one by one."""


def record_paths(profiles: Path) -> dict[str, Path]:
    """The records in a database's folder by their devices."""
    folder = profiles / FOLDER
    return {path.name.removesuffix(ENDING): path for path in sorted(folder.glob(f"*{ENDING}"))}


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
