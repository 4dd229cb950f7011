"""Ids of private signatures that nobody can compute from a guess.

A signature's id is a hash of its content. Whoever guesses the model can make the same signature, and see by its id that
the guess is right. So a proxy's folder calls a private signature by its *keyed* id: a hash of id and key. The key is a
random number in a file beside the signature, `my.json.key`, which only its owner can read and which is never shared.
Whoever has signature and key finds the signature that a proxy was made of.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path

from statsnet.errors import FileFormatError, StatsNetError
from statsnet.signatures.gzipped import check_ends

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
        check_ends(file)
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
    """The key of a signature's file, made and stored beside it if there is none.

    Raises FileFormatError as `key_beside` does, and StatsNetError if the key cannot be stored or read: with another
    key each time, a proxy would have another id each time, and nobody would find its member again.
    """
    known = key_beside(path)
    if known is not None:
        return known
    file = key_file(path)
    try:
        with contextlib.suppress(FileExistsError):  # another process was faster
            _store(secrets.token_bytes(KEY_BYTES), file)
        check_ends(file)
        with open(file, "rb"):
            pass
    except OSError as error:
        raise StatsNetError(
            f"the key of '{path}' cannot be stored as '{file.name}' beside it",
            cause=(error.strerror or str(error)).lower(),
            hint="copy the signature (and its key, if it has one) to a folder where you can write, and name the copy",
        ) from error
    key = key_beside(path)
    assert key is not None
    return key


def _store(key: bytes, file: Path) -> None:
    """A file that only its owner can read; one that is there stays. Raises OSError, FileExistsError for such a one."""
    text = (key.hex() + "\n").encode("ascii")
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}.tmp")
    try:
        _write_new(text, temporary)
        os.link(temporary, file)  # whole or not at all; unlike a rename, it leaves the key of a faster process
    except FileExistsError:
        raise
    except OSError:  # some file systems have no links
        _write_new(text, file)
    finally:
        temporary.unlink(missing_ok=True)


def _write_new(text: bytes, file: Path) -> None:
    """Raises OSError, and leaves no part of a file then."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(handle, "wb") as opened:
            opened.write(text)
    except OSError:
        file.unlink(missing_ok=True)
        raise
