"""Whether a result can be written: found out before the work, not after it."""

from __future__ import annotations

from pathlib import Path

from statsnet.environment.temporary import temporary_folder
from statsnet.errors import StatsNetError, UsageError


def check_file(path: Path) -> None:
    """Raises UsageError for a folder or a device, and what `check_folder` raises for the folder that it is in."""
    if path.is_dir():
        raise UsageError(f"'{path}' is a folder", cause="a file is expected", hint=f"for example {path / 'out.json'}")
    if path.exists() and not path.is_file():
        raise UsageError(
            f"'{path}' is not a regular file",
            cause="a regular file is expected",
            hint="name another; what goes to stdout is -",
        )
    check_folder(path.parent)


def check_folder(folder: Path) -> None:
    """Raise StatsNetError if no file can be made in this folder, or the folder itself cannot be made."""
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise UsageError(f"'{existing}' is not a folder", hint="choose another path")
    try:
        with temporary_folder(within=existing):
            pass
    except OSError as error:  # rights do not tell all: of /proc, or of a full disk
        cause = (error.strerror or str(error)).lower()
        raise StatsNetError(f"'{existing}' cannot be written to", cause=cause, hint="choose another folder") from error
