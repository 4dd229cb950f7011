"""A configuration whose parts do not fit each other, changed as its model's errors ask.

Some classes' defaults do not fit, or fit only at one size: a part keeps a copy of another part's width under a name of
its own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from benchmarks.drawn.refitting import sizes_told

_SMALLEST = 8
"""Numbers below it are no widths, and many fields have them."""


def mended(config: Any, error: str) -> Iterator[Any]:
    """One changed configuration for each place that may hold the layer's size: there it becomes the size of the layer's
    input."""
    for had, wanted in sizes_told(error):
        if min(had, wanted) < _SMALLEST or had == wanted:
            continue
        for path in _places(config, wanted):
            changed = copy.deepcopy(config)
            _put(changed, path, had)
            yield changed


_Path = tuple[str | int, ...]
"""Names of fields, and places in lists."""


def _places(value: Any, wanted: int) -> Iterator[_Path]:
    """Where this number stands in a configuration, those inside it and its lists."""
    if isinstance(value, int) and not isinstance(value, bool) and value == wanted:
        yield ()
    for key, entry in _entries(value):
        yield from ((key, *path) for path in _places(entry, wanted))


def _entries(value: Any) -> list[tuple[str | int, Any]]:
    if hasattr(value, "to_dict"):
        return [*vars(value).items()]
    return [*enumerate(value)] if isinstance(value, list | tuple) else []


def _put(value: Any, path: _Path, number: int) -> None:
    """Write the number at this place; a tuple on the way there becomes a list."""
    key, *others = path
    entry = vars(value)[key] if isinstance(key, str) else value[key]  # some let no field of a layer's own be read
    if isinstance(entry, tuple):
        entry = [*entry]
    if others:
        _put(entry, tuple(others), number)
    else:
        entry = number
    if isinstance(key, str):
        setattr(value, key, entry)
    else:
        value[key] = entry
