"""Ids of private signatures that nobody can compute from a guess.

A signature's id is a hash of its content. Whoever guesses the model can make the same signature, and see by its id that
the guess is right. So a proxy's folder calls a private signature by its *keyed* id: a hash of id and key. The key is a
random number in a file beside the signature, `my.json.key`, which only its owner can read and which is never shared.
Whoever has signature and key finds the signature that a proxy was made of.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path

from statsnet.errors import FileFormatError

ENDING = ".key"
KEY_BYTES = 32
_TEXT = re.compile(rf"[0-9a-f]{{{2 * KEY_BYTES}}}\n?")
_MOST_BYTES = 1000


def keyed(signature_id: str, key: bytes) -> str:
    """The keyed id, HMAC-SHA256 (RFC 2104), in the form of an id."""
    return "sha256:" + hmac.new(key, signature_id.encode(), hashlib.sha256).hexdigest()


def key_file(path: Path) -> Path:
    """Where the key of a signature's file stands."""
    return path.with_name(path.name + ENDING)


def key_beside(path: Path) -> bytes | None:
    """The key of a signature's file; None if it has none that we may read. Raises FileFormatError if the key's file
    holds something else."""
    file = key_file(path)
    try:
        with open(file, "rb") as opened:
            text = opened.read(_MOST_BYTES).decode("ascii", "replace")
    except OSError:
        return None
    if not _TEXT.fullmatch(text):
        raise FileFormatError(
            f"'{file}' is no key of a signature",
            cause=f"{2 * KEY_BYTES} hexadecimal digits are expected",
            hint="move it away: a new one is made then",
        )
    return bytes.fromhex(text)


def key_of(path: Path) -> bytes:
    """The key of a signature's file, made and stored beside it if there is none. Where it can not be stored, it lasts
    as long as this process. Raises FileFormatError as `key_beside` does."""
    known = key_beside(path)
    if known is not None:
        return known
    with contextlib.suppress(OSError):
        _store(secrets.token_bytes(KEY_BYTES), key_file(path))
    return key_beside(path) or _of_this_process(path.absolute())


def _store(key: bytes, file: Path) -> None:
    """A file that only its owner can read, whole or not at all; one that is there stays. Raises OSError."""
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(handle, "w", encoding="ascii") as opened:
            opened.write(key.hex() + "\n")
        os.link(temporary, file)  # unlike a rename, it leaves the key of another process that was faster
    finally:
        os.unlink(temporary)


@functools.cache
def _of_this_process(_: Path) -> bytes:
    return secrets.token_bytes(KEY_BYTES)
