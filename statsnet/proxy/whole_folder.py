"""A proxy's folder is written whole or not at all, and replaces nothing but a proxy's folder."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from statsnet.environment.temporary import temporary_folder
from statsnet.errors import StatsNetError
from statsnet.signatures.kinds import FILES, SEARCH_FILES

_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of Linux."""


def check_output(folder: Path) -> None:
    """Raise StatsNetError if a proxy cannot be written there: found out before the work, not after it."""
    place = Path(os.path.realpath(folder))
    if place.is_symlink():
        raise StatsNetError(f"'{folder}' is a link to itself", hint="choose another folder with -o")
    if place.exists() and not place.is_dir():
        raise StatsNetError(f"'{folder}' is a file", hint="choose another folder with -o")
    strangers = sorted({p.name for p in place.iterdir()} - {*FILES, *SEARCH_FILES}) if place.exists() else []
    if strangers:
        raise StatsNetError(
            f"'{folder}' is not a proxy folder",
            cause=f"it holds '{strangers[0]}'",
            hint="choose another folder with -o",
        )
    if os.path.ismount(place) or Path.cwd().is_relative_to(place):
        raise StatsNetError(
            f"'{folder}' cannot be replaced as a whole",
            cause="it is a file system of its own" if os.path.ismount(place) else "it is the folder that you are in",
            hint=f"choose a folder in it, for example -o {folder / 'proxy'}",
        )
    existing = next(parent for parent in place.parents if parent.exists())
    try:
        with temporary_folder(f".{place.name}-", within=existing):
            pass
    except OSError as error:  # rights do not tell all: of /proc, or of a full disk
        raise StatsNetError(
            f"'{folder}' cannot be written",
            cause=f"no folder can be made in '{existing}', beside which it is put together: {error.strerror}",
            hint="choose another folder with -o",
        ) from error


@contextlib.contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder that appears under its name only when its content is complete. Raises StatsNetError if it cannot be
    written."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(f".{folder.name}-", within=folder.parent) as beside:
            partial = beside / folder.name
            partial.mkdir()
            partial.chmod(_mode_of(folder))
            yield partial
            _put_in_place(partial, folder)
    except OSError as error:
        raise StatsNetError(
            f"the proxy could not be written to '{folder}'",
            cause=error.strerror or str(error),
            hint="free some space or choose another folder with -o",
        ) from error


def _mode_of(folder: Path) -> int:
    """The permissions of the folder that is replaced, or what the umask leaves for a new one."""
    if folder.exists():
        return stat.S_IMODE(folder.stat().st_mode)
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o777 & ~mask


def _put_in_place(partial: Path, folder: Path) -> None:
    """One of the two is there at any moment, also if this process is killed in it. The old one goes with the temporary
    folder around it."""
    if not folder.exists():
        os.replace(partial, folder)
    elif not _exchanged(partial, folder):  # moved aside: not into what is swept, as it may be all that there is
        aside = partial.parent.with_name(f"{partial.parent.name}.old")
        os.replace(folder, aside)
        try:
            os.replace(partial, folder)
        except OSError:
            os.replace(aside, folder)
            raise
        shutil.rmtree(aside, ignore_errors=True)


def _exchanged(one: Path, other: Path) -> bool:
    """Swap the names of two folders in one step; False where the system cannot (man 2 renameat2)."""
    swap = getattr(ctypes.CDLL(None), "renameat2", None)
    return swap is not None and swap(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0
