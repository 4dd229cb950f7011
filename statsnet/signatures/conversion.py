"""From typed values to plain data and back. Data that is read is checked against the limits of the types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
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
    if not is_dataclass(value):
        return value
    known = ((f, getattr(value, f.name)) for f in fields(value))
    return {f.name: plain(v) for f, v in known if v is not None or f.metadata != IF_KNOWN}


def typed(data: Any, wanted: Any, place: str = "") -> Any:
    """Plain data as a value of the type `wanted`. Raises ValueError that names the first place that does not fit."""
    try:
        return msgspec.convert(data, wanted)
    except msgspec.ValidationError as error:
        match = re.fullmatch(r"(.*?)(?: - at `(?:key` in `)?\$(.*)`)?", str(error), re.DOTALL)
        assert match is not None
        where = (place + (match[2] or "")).lstrip(".")
        message = printable(match[1][:200])
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
