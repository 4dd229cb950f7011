"""The journal of a search: the file in which Optuna keeps, line by line, what was tried, so that it can be resumed."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from statsnet.errors import UsageError
from statsnet.signatures.canonical import cannot_write

_BEGIN = b'{"op_code":'
"""With this each of Optuna's lines begins."""

_LOOKED_AT = 1 << 16


def check_journal(journal: Path) -> None:
    """Raises UsageError for something else in the journal's place: a search would write into it, or begin it anew."""
    try:
        if not journal.exists():
            return
        if journal.is_file():
            with open(journal, "rb") as file:
                content = file.read(len(_BEGIN))
            if _BEGIN.startswith(content):  # also one whose first line was cut short
                return
        cause = "it is another file, and would be overwritten" if journal.is_file() else "it is no regular file"
    except OSError as error:
        cause = error.strerror or str(error)
    raise UsageError(
        f"'{journal}' is no journal of a search", cause=cause, hint="move it, or choose another place (-o, --storage)"
    )


@contextlib.contextmanager
def held_journal(journal: Path) -> Iterator[None]:
    """Keep other searches from this journal. One in which nothing is written goes.

    Raises as `check_journal`, UsageError if another search holds it, StatsNetError if it cannot be written.
    """
    check_journal(journal)
    try:
        journal.parent.mkdir(parents=True, exist_ok=True)
        file = open(journal, "ab")  # noqa: SIM115
    except OSError as error:
        raise cannot_write(journal, error) from error
    with file:
        _lock(file, fcntl.LOCK_EX, journal)
        try:
            yield
        finally:
            if not os.fstat(file.fileno()).st_size:
                journal.unlink(missing_ok=True)


def ready_journal(journal: Path, *, resume: bool) -> None:
    """Empty a journal that is held, or make it fit to be resumed: without the line that a killed search may have left
    unfinished."""
    os.truncate(journal, _whole_lines(journal) if resume else 0)


@contextlib.contextmanager
def shared_journal(journal: Path) -> Iterator[None]:
    """Keep searches that want this journal alone from it; others may share it.

    Raises as `check_journal`, UsageError if a search holds it alone or its disk has no locks, StatsNetError if it
    cannot be written.
    """
    check_journal(journal)
    try:
        file = open(journal, "ab")  # noqa: SIM115
    except OSError as error:
        raise cannot_write(journal, error) from error
    with file:
        if not _lock(file, fcntl.LOCK_SH, journal):
            raise UsageError(
                f"'{journal}' can not be shared",
                cause="its disk has no file locks",
                hint="mount it with file locks, or take a database: --storage postgresql://USER@HOST/DATABASE",
            )
        yield


class WriterLock:
    """Keeps the workers that share a journal from writing at the same time. The system takes the lock from a worker
    that is killed. For Optuna's own locks others would wait half a minute, and then might break each other's.

    Whoever takes it removes the line that a killed worker, or a full disk, left unfinished: the next line would be
    appended to it, and nobody could read on.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._file: IO[bytes] | None = None

    def acquire(self) -> bool:
        file = open(f"{self._journal}.writer", "ab")  # noqa: SIM115 - released with the lock
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if (end := _whole_lines(self._journal)) < self._journal.stat().st_size:
                os.truncate(self._journal, end)
        except BaseException:
            file.close()
            raise
        self._file = file
        return True

    def release(self) -> None:
        assert self._file is not None
        self._file.close()


def _lock(file: IO[bytes], kind: int, journal: Path) -> bool:
    """Whether the file system has locks at all."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UsageError(
            f"another search writes into '{journal}'", hint="wait for its end, or choose another place (-o, --storage)"
        ) from error
    except OSError:  # a file system without locks
        return False
    return True


def _whole_lines(journal: Path) -> int:
    """Bytes up to the end of the last line that is finished."""
    with open(journal, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            begin = max(0, end - _LOOKED_AT)
            file.seek(begin)
            if (at := file.read(end - begin).rfind(b"\n")) >= 0:
                return begin + at + 1
            end = begin
    return 0
