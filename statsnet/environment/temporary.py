"""Temporary files and folders that do not outlive the process that made them, whatever ends it.

Each is locked while its process lives. A process that is killed can remove nothing; but then nobody holds the lock, so
the next process that makes one knows that it may.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from statsnet.errors import StatsNetError

PREFIX = "statsnet-"

_SUFFIX = ".tmp"
_MARK = ".temporary"
"""The file in each folder that is locked. A folder without it is nobody's temporary one, whatever its name is."""

SETTLED_S = 10.0
"""Younger ones are let alone: one is made first and locked then."""

_live: set[Path] = set()


def live_folders() -> list[Path]:
    """Temporary folders that this process has now."""
    return sorted(_live)


@contextlib.contextmanager
def temporary_folder(prefix: str = PREFIX, within: Path | None = None) -> Iterator[Path]:
    """A folder that goes with the `with` block: in the system's folder for temporary files, or `within` another.

    What killed processes have left there under this prefix is removed first. Raises OSError as tempfile does, and
    StatsNetError where no folder for temporary files is known.
    """
    place = within or _usual_place()
    if within is None:
        _sweep_once(place, prefix)
    else:
        sweep(place, prefix)
    folder = place / f"{prefix}{secrets.token_hex(6)}{_SUFFIX}"
    _live.add(folder)
    try:
        folder.mkdir(mode=stat.S_IRWXU)
        with open(folder / _MARK, "xb") as mark:
            hold(mark)
            yield folder
    finally:
        _live.discard(folder)
        try:
            _remove(folder)
        except BaseException:  # a signal that ends the command came just then
            _remove(folder)
            raise


def _usual_place() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise StatsNetError(
            "no folder for temporary files can be written to",
            cause="tried TMPDIR, /tmp, /var/tmp, /usr/tmp and the current folder; they are read-only or full",
            hint="TMPDIR=FOLDER names one with space",
        ) from error


def hold(file: BinaryIO) -> None:
    """Lock a file until it is closed. Where the file system knows no locks, nothing is ever swept."""
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def sweep(place: Path, prefix: str) -> None:
    """Remove the temporary folders of this user there that no process holds any more."""
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if not entry.name.startswith(prefix) or not entry.is_dir(follow_symlinks=False):
                continue
            if is_left_over(Path(entry.path, _MARK)):
                _remove(Path(entry.path))
            elif entry.name.endswith(_SUFFIX):
                with contextlib.suppress(OSError):  # only an empty one goes: its process was killed before it held it
                    if _is_settled(entry.stat(follow_symlinks=False)):
                        os.rmdir(entry.path)


def _remove(folder: Path) -> None:
    """The mark goes last: what a process leaves that is killed meanwhile can still be swept. No link is followed: where
    others write too, the folder may have become one."""
    try:
        here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError), os.scandir(here) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.name, ignore_errors=True, dir_fd=here)
                elif entry.name != _MARK:
                    with contextlib.suppress(OSError):
                        os.unlink(entry.name, dir_fd=here)
    finally:
        os.close(here)
    shutil.rmtree(folder, ignore_errors=True)


def _is_settled(about: os.stat_result) -> bool:
    """Whether it is this user's, and as old as what nobody makes any more."""
    return about.st_uid == os.getuid() and time.time() - about.st_mtime >= SETTLED_S


def is_left_over(path: Path) -> bool:
    """Whether a file that was locked with `hold` is this user's, and its process has ended."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or not _is_settled(about):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # it is held
        return False
    finally:
        os.close(descriptor)
    return True


@functools.cache
def _sweep_once(place: Path, prefix: str) -> None:
    sweep(place, prefix)
