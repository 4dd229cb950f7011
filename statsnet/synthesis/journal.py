"""The journal of a search: the file in which Optuna keeps, line by line, what was tried, so that it can be resumed."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

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
            if _BEGIN.startswith(content[: len(_BEGIN)]):  # also one whose first line was cut short
                return
        cause = "it is another file, and would be overwritten" if journal.is_file() else "it is no regular file"
    except OSError as error:
        cause = error.strerror or str(error)
    raise UsageError(f"'{journal}' is no journal of a search", cause=cause, hint="move it, or choose another -o")


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
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another search writes into '{journal}'", hint="wait for its end, or choose another folder with -o"
            ) from error
        except OSError:  # a file system without locks
            pass
        try:
            yield
        finally:
            if not os.fstat(file.fileno()).st_size:
                journal.unlink(missing_ok=True)


def ready_journal(journal: Path, *, resume: bool) -> None:
    """Empty a journal that is held, or make it fit to be resumed: without the line that a killed search may have left
    unfinished, and without Optuna's own lock, which nobody else can hold now."""
    os.truncate(journal, _whole_lines(journal) if resume else 0)
    if os.path.islink(lock := f"{journal.resolve()}.lock"):
        os.unlink(lock)


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
