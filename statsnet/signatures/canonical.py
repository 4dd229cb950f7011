"""One text for one content: canonical JSON, ids by content, reading and writing that never half succeed."""

from __future__ import annotations

import contextlib
import csv
import errno
import hashlib
import io
import json
import math
import numbers
import os
import re
import secrets
import stat
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from statsnet.environment.temporary import hold, is_left_over
from statsnet.errors import FileFormatError, StatsNetError, printable
from statsnet.signatures import packed
from statsnet.signatures.strict_json import OTHER_KIND, parse_json

SIGNIFICANT_DIGITS = 9
LINE_WIDTH = 110
LONGEST_WORD = 60
DEFAULT_MAX_BYTES = 16 * 1024 * 1024


def canonical_json(data: Any) -> str:
    """Text of plain data: sorted keys, numbers with nine significant digits, ASCII, a final newline.

    What fits on a line stands on one line, so that files can be read and compared. A number has one form
    whatever its type (2 and 2.0 are both `2`). Raises ValueError for NaN and infinities, TypeError for what
    JSON does not know.
    """
    return _pretty(data, 0) + "\n"


def content_id(data_without_id: Mapping[str, Any]) -> str:
    """`sha256:<hex>` over the canonical form on one line; a top-level "id" is left out."""
    content = {k: v for k, v in data_without_id.items() if k != "id"}
    return "sha256:" + hashlib.sha256(_compact(content).encode("ascii")).hexdigest()


def number_text(value: float | numbers.Real) -> str:
    """Canonical form of a number; stable: reading it and writing it again gives the same text."""
    if type(value) is not float:  # most are, and asking what a number is takes longer than writing it
        if isinstance(value, numbers.Integral):
            return str(int(value))
        value = float(value)
    if not math.isfinite(value):
        raise ValueError(f"{value} has no canonical form: what was not measured is null")
    return f"{value:.{SIGNIFICANT_DIGITS}g}" if value else "0"  # -0.0 is 0 too


def canonical_csv(head: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table in CSV: numbers have nine significant digits, True is 1, False 0, and None, what is not known, empty.

    Before a text that a spreadsheet would take for a formula there is an apostrophe. Texts may come from anybody's
    file, and the table goes to a terminal: control characters are shown as `?`.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return printable(f"'{value}" if value.startswith(_FORMULA) else value)
    return number_text(value)


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def _compact(value: Any) -> str:
    kind = type(value)  # asking what else a value might be takes longer than writing it
    if kind is str:
        return _quoted(value)
    if kind is int:
        return str(value)
    if kind is float:
        return number_text(value)
    if kind is list:
        return "[" + ",".join(map(_compact, value)) + "]"
    if kind is bool or value is None:
        return _CONSTANTS[value]
    if kind is dict or isinstance(value, Mapping):
        return "{" + ",".join([f"{_key(k)}:{_compact(value[k])}" for k in sorted(value)]) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_compact, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, numbers.Real):
        return number_text(value)
    raise TypeError(f"{kind.__name__} is not plain data")


_CONSTANTS = {None: "null", False: "false", True: "true"}


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"the key {key!r} is not a string")
    return _quoted(key)


def _quoted(text: str) -> str:
    return _quoted_word(text) if len(text) <= LONGEST_WORD else json.dumps(text)


@lru_cache(10_000)
def _quoted_word(word: str) -> str:
    """The same few are in every row: names of fields, operators and dtypes."""
    return json.dumps(word)


def _pretty(value: Any, indent: int) -> str:
    if isinstance(value, Mapping):
        opening, closing = "{", "}"
        items = [f"{_key(k)}:{_pretty(value[k], indent + 1)}" for k in sorted(value)]
    elif isinstance(value, (list, tuple)):
        opening, closing = "[", "]"
        items = [_pretty(v, indent + 1) for v in value]
    else:
        return _compact(value)
    text = f"{opening}{','.join(items)}{closing}"
    if len(text) + indent <= LINE_WIDTH and "\n" not in text:
        return text
    line = "\n" + " " * (indent + 1)
    return f"{opening}{line}{f',{line}'.join(items)}\n{' ' * indent}{closing}"


def write_json_atomically(path: str | os.PathLike[str], data: Any) -> None:
    """The canonical form of plain `data` by `write_text_atomically`."""
    write_text_atomically(path, canonical_json(data))


def write_text_atomically(path: str | os.PathLike[str], text: str) -> None:
    """A text by `write_bytes_atomically`."""
    write_bytes_atomically(path, text.encode("utf-8"))


def write_bytes_atomically(path: str | os.PathLike[str], content: bytes, *, owner_only: bool = False) -> None:
    """Write a file: afterwards it holds all of the content, or what it held before.

    Folders are made as needed. A file that was there keeps its permissions, and behind a link the file that it names is
    written; with `owner_only`, none but its owner may read or write it. What a killed process has left of writing
    the same file is removed. Raises StatsNetError if the file cannot be written, or is a pipe or a device.
    """
    target = Path(os.path.realpath(path)) if os.path.islink(path) else Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        if target.exists() and not (target.is_file() or target.is_dir()):  # a device: renaming would replace it
            raise StatsNetError(
                f"could not write '{target}'", cause="it is not a regular file", hint="name another file"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        with open(temporary, "xb", opener=_open_for_owner if owner_only else None) as file:
            hold(file)
            if not owner_only and (mode := _mode_of(target)) is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, target)  # while it is held: else another process might sweep it
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise cannot_write(target, error) from error
        raise


def _open_for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, stat.S_IRUSR | stat.S_IWUSR)


def _sweep(target: Path) -> None:
    ours = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}\.tmp")
    with contextlib.suppress(OSError):  # a folder that may not be listed
        for name in os.listdir(target.parent):
            if ours.fullmatch(name) and is_left_over(beside := target.with_name(name)):
                beside.unlink()


def _mode_of(target: Path) -> int | None:
    """The permissions of a file that is there; None for a new one, which gets those that the umask leaves."""
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        return None


def cannot_write(path: Path, error: OSError) -> StatsNetError:
    """The error for a file that the system refuses to write, with what to do about it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free some space on that disk, or write to another one"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "choose a folder that you may write to"
    else:
        hint = "check the path"
    return StatsNetError(f"could not write '{path}'", cause=error.strerror or str(error), hint=hint)


def read_json(path: str | os.PathLike[str], *, max_bytes: int = DEFAULT_MAX_BYTES) -> dict[str, Any]:
    """The object in a JSON file that nobody has vouched for.

    Raises FileFormatError if it is missing, no regular file, larger than `max_bytes`, not UTF-8, or as `parse_json`
    does.
    """
    return parse_json(read_text(Path(path), max_bytes), path)


def read_text(path: Path, max_bytes: int) -> str:
    """The text of a file, which may be packed (packed.py).

    Raises FileFormatError if it is missing, no regular file, larger than `max_bytes` or not UTF-8.
    """
    try:
        if path.is_dir():
            raise FileFormatError(f"'{path}' is a folder, not a file", hint="name a file in it")
        if path.exists() and not path.is_file():
            raise FileFormatError(f"'{path}' is not a regular file")
        if (archive := packed.archive_named(path)) is not None:
            names = packed.files(archive)
            hint = f"name a file in it: {names[0]}" if names else "it is empty"
            raise FileFormatError(f"'{path}' is a packed folder, not a file", hint=hint)
        content = packed.read(path, max_bytes + 1)  # not stat: the file may grow meanwhile
    except FileNotFoundError as error:
        raise FileFormatError(f"'{path}' does not exist", hint="check the path") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        raise FileFormatError(f"'{path}' cannot be read", cause=str(error)) from error
    if len(content) > max_bytes:
        raise FileFormatError(
            f"'{path}' is too large", cause=f"more than {max_bytes} bytes, the limit for files of this kind"
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        cause = f"byte {error.start} is not UTF-8"
        raise FileFormatError(f"'{path}' is not a text file", cause=cause, hint=OTHER_KIND) from error
