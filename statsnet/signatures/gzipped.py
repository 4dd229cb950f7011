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

_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)
"""What reading a damaged gzip file raises."""


def open_unpacked(path: Path) -> BinaryIO:
    """A file's content. Raises OSError as `open` does and for what is no file; reading may raise one of _DAMAGED."""
    check_ends(path)
    with open(path, "rb") as file:
        is_packed = file.read(len(_MAGIC)) == _MAGIC
    return cast(BinaryIO, gzip.open(path, "rb")) if is_packed else open(path, "rb")


def check_ends(path: Path) -> None:
    """Raises OSError for a pipe or a device: whoever opens it may wait forever."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raises FileFormatError if the file that is read inside cannot be, or is damaged."""
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


def read_unpacked(path: Path, *, most: int = MOST_BYTES) -> bytes:
    """A file's whole content. Raises FileFormatError if it cannot be read, is damaged, or has more than `most`
    bytes: a small file may unpack to more than there is memory."""
    with reading(path), open_unpacked(path) as file:
        content = b"".join(_pieces(file, most + 1))
    if len(content) > most:
        raise FileFormatError(
            f"'{path}' is too large", cause=f"more than {most} bytes, unpacked", hint="give a shorter recording"
        )
    return content


def _pieces(file: BinaryIO, most: int) -> Iterator[bytes]:
    """At most so many bytes. Asked for all at once, Python takes memory for all of them, however short the file is."""
    while most > 0 and (piece := file.read(min(most, _PIECE_BYTES))):
        most -= len(piece)
        yield piece
