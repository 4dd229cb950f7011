"""Files as they are, or compressed with gzip. Their first bytes tell which, not their names."""

from __future__ import annotations

import errno
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from statsnet.errors import FileFormatError

_MAGIC = b"\x1f\x8b"
_PIECE_BYTES = 2**20

MOST_BYTES = 2**30
"""What is read at once."""

FREE_BYTES, MOST_TIMES = 2**24, 200
"""A file that unpacks to more than FREE_BYTES has at most MOST_TIMES its size. Recordings have 10 to 50 times their
size. One byte again and again, as in a model without values, has 1000 times, and reading it would take very long."""

_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)
"""What reading a damaged gzip file raises."""


def open_unpacked(path: Path) -> BinaryIO:
    """A file's content. Raises OSError as `open` does and for what is no file. It is to be read inside `reading`."""
    check_ends(path)
    with open(path, "rb") as file:
        is_packed = file.read(len(_MAGIC)) == _MAGIC
    return cast(BinaryIO, _Unpacked(path)) if is_packed else open(path, "rb")


class _Unpacked(gzip.GzipFile):
    """Raises FileFormatError where a small file would become a huge one."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self._path, self._most = path, max(FREE_BYTES, MOST_TIMES * path.stat().st_size)

    def read(self, size: int | None = -1) -> bytes:
        return self._checked(super().read(size))

    def read1(self, size: int = -1) -> bytes:
        return self._checked(super().read1(size))

    def _checked(self, piece: bytes) -> bytes:
        if self.tell() > self._most:
            raise FileFormatError(
                f"'{self._path}' unpacks to too much",
                cause=f"more than {MOST_TIMES} times its size",
                hint="give it unpacked",
            )
        return piece


def check_ends(path: Path) -> None:
    """Raises OSError for a pipe or a device: whoever opens it may wait forever."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raises FileFormatError if the file that is read inside cannot be, is damaged, or unpacks to too much."""
    try:
        yield
    except _DAMAGED as error:
        raise FileFormatError(
            f"'{path}' is a damaged gzip file", cause=str(error), hint="copy or record it once more"
        ) from error
    except OSError as error:
        raise FileFormatError(
            f"'{path}' cannot be read", cause=error.strerror or str(error), hint="check the path and its permissions"
        ) from error


def read_unpacked(path: Path, *, most: int = MOST_BYTES, hint: str = "give a shorter recording") -> bytes:
    """A file's whole content. Raises FileFormatError if it cannot be read, is damaged, or has more than `most`
    bytes (then with this `hint`): a small file may unpack to more than there is memory."""
    with reading(path), open_unpacked(path) as file:
        content = b"".join(_pieces(file, most + 1))
    if len(content) > most:
        raise FileFormatError(f"'{path}' is too large", cause=f"more than {most} bytes, unpacked", hint=hint)
    return content


def _pieces(file: BinaryIO, most: int) -> Iterator[bytes]:
    """At most so many bytes. Asked for all at once, Python takes memory for all of them, however short the file is."""
    while most > 0 and (piece := file.read(min(most, _PIECE_BYTES))):
        most -= len(piece)
        yield piece
