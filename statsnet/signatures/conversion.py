"""From typed values to plain data and back. Data that is read is checked against the limits of the types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import msgspec

from statsnet.errors import printable

IF_KNOWN = {"if_known": True}
"""Metadata of a field that is left out of plain data if it is None. Every other None becomes null."""


def plain(value: Any) -> Any:
    """Turns dataclasses into dictionaries and tuples into lists, as JSON needs them."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    names = _fields_of(value.__class__)
    if names is None:
        return value
    known = ((name, getattr(value, name), always) for name, always in names)
    return {name: plain(v) for name, v, always in known if v is not None or always}


@cache
def _fields_of(kind: type) -> tuple[tuple[str, bool], ...] | None:
    """The names of a dataclass's fields, and whether each is written even if it is None. None for other types. To ask
    again for each value takes most of the time."""
    return tuple((f.name, f.metadata != IF_KNOWN) for f in fields(kind)) if is_dataclass(kind) else None


def typed(data: Any, wanted: Any, place: str = "") -> Any:
    """Plain data as a value of the type `wanted`. Raises ValueError that names the first place that does not fit."""
    try:
        return msgspec.convert(data, wanted)
    except msgspec.ValidationError as error:
        said, at, path = str(error).rpartition(" - at `")  # the last one, as what is said may quote the file
        said, path = (said, path.partition("$")[2].removesuffix("`")) if at else (path, "")
        where, message = (place + path).lstrip("."), printable(said[:200])
        raise ValueError(f"at {where}: {message}" if where else message) from error


def check_keys(data: Any, known: Any, place: str = "") -> None:
    """Raise ValueError for a key that stands in only one of the two. Converting passes over keys that a type does not
    know, and takes the default where one is missing."""
    if data == known:
        return
    if isinstance(data, Mapping):
        for key in sorted(data.keys() ^ known.keys()):
            problem = "was unexpected" if key in data else "is missing"
            raise ValueError(f"{f'at {place}: ' if place else ''}{key[:60]!r} {problem}")
        for key, value in data.items():
            check_keys(value, known[key], f"{place}.{key}".lstrip("."))
    elif isinstance(data, list):
        for i, (value, other) in enumerate(zip(data, known, strict=True)):
            check_keys(value, other, f"{place}[{i}]")
