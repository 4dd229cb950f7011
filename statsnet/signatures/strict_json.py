"""JSON that nobody has vouched for: one object, within limits, or a sentence that says what is wrong."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from statsnet.errors import FileFormatError

MAX_DEPTH = 32
MAX_PARTS = 1_000_000
"""Lists, objects and keys in a file: each takes a few characters there, and 60 to 200 bytes of memory once read."""

OTHER_KIND = (
    "signatures, results and the parts of a proxy's folder are text, and their names end in .json; "
    "`statsnet import` makes a signature of a recording"
)
"""A hint for whoever names a file of another kind."""


def parse_json(text: str, path: object) -> dict[str, Any]:
    """The object in a text that nobody has vouched for.

    Raises FileFormatError if it is truncated or malformed (with the line), holds a key twice, NaN or an infinity, is
    nested too deeply, holds more than MAX_PARTS lists, objects and keys, or is no object.
    """
    check_parts(text, path)
    try:
        data = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_without_duplicates)
        levels = _levels(data, text)
    except json.JSONDecodeError as error:
        truncated = not text[error.pos :].strip() or error.msg.startswith("Unterminated string")
        problem = "is empty" if not text.strip() else "ends too early" if truncated else "is not valid JSON"
        raise FileFormatError(
            f"'{path}' {problem}",
            cause=f"line {error.lineno}, column {error.colno}: {error.msg}",
            hint=OTHER_KIND
            if Path(str(path)).suffix != ".json" and problem == "is not valid JSON"
            else "write the file again, or copy it again from where it came",
        ) from error
    except (ValueError, RecursionError) as error:
        cause = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise FileFormatError(f"'{path}' is not valid JSON", cause=cause) from error
    if not isinstance(data, dict):
        raise FileFormatError(f"'{path}' does not hold an object", cause=f"it holds a {type(data).__name__}")
    if levels > MAX_DEPTH:
        raise FileFormatError(f"'{path}' is nested too deeply", cause=f"more than {MAX_DEPTH} levels")
    return data


def check_parts(text: str | bytes, path: object, most: int = MAX_PARTS, *, hint: str = "") -> None:
    """Raises FileFormatError for a JSON text that would take much more memory than it has letters."""
    marks: Iterable[Any] = "[{:" if isinstance(text, str) else (b"[", b"{", b":")
    if sum(map(text.count, marks)) > most:
        cause = f"it holds more than {most} lists, objects and keys"
        raise FileFormatError(f"'{path}' is too large", cause=cause, hint=hint)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key '{twice[:40]}' stands twice in one object")
    return values


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def _levels(data: Any, text: str) -> int:
    """How many levels of lists and objects there are in the data of a text, counted to MAX_DEPTH + 1. Raises ValueError
    for a number that a double cannot hold: only then is the text read with a look at each number, which takes long."""
    level, count = [data] if isinstance(data, (dict, list)) else [], 0
    while level and count <= MAX_DEPTH:
        count += 1
        held = [node.values() if isinstance(node, dict) else node for node in level]
        if any(math.inf in values or -math.inf in values for values in held):
            json.loads(text, parse_float=_finite)
        level = [value for values in held for value in values if isinstance(value, (dict, list))]
    return count
