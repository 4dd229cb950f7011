"""Files as they are, or compressed with gzip. Their first bytes tell which, not their names."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from statsnet.errors import FileFormatError

_MAGIC = b"\x1f\x8b"

DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)
"""What reading a damaged gzip file raises."""


def open_unpacked(path: Path) -> BinaryIO:
    """A file's content. Raises OSError as `open` does; reading may raise one of DAMAGED."""
    with open(path, "rb") as file:
        is_packed = file.read(len(_MAGIC)) == _MAGIC
    return cast(BinaryIO, gzip.open(path, "rb")) if is_packed else open(path, "rb")


def read_unpacked(path: Path, *, most: int | None = None) -> bytes:
    """A file's whole content. Raises FileFormatError if it cannot be read, is damaged, or has more than `most` bytes
    (None: any number)."""
    try:
        with open_unpacked(path) as file:
            content = file.read(-1 if most is None else most + 1)
    except DAMAGED as error:
        raise FileFormatError(
            f"'{path}' is a damaged gzip file", cause=str(error), hint="copy or record it once more"
        ) from error
    except OSError as error:
        raise FileFormatError(
            f"'{path}' cannot be read", cause=error.strerror or str(error), hint="check the path and its permissions"
        ) from error
    if most is not None and len(content) > most:
        raise FileFormatError(f"'{path}' is too large", cause=f"more than {most} bytes")
    return content
