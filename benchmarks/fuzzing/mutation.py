"""A file with some things changed, as a few bytes choose them.

The bytes are a list of choices: which value of a JSON document is replaced by what, which bytes are cut, doubled or
turned. So random bytes, Hypothesis and libFuzzer all drive the same changes, and what they arrive at is far more often
a file that a reader takes in than bytes changed blindly would be. When the bytes are used up, all further choices are
the first one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 16, 255, 2**31, 2**62, 2**63, -(2**63), 10**40, 10**400, 0.5, -0.5, 1e-300, 1e300,
    1e-9, "", "x", "nan", "inf", "-inf", "mean", "1e999", "\x1b]0;owned\x07", "\u202e", "\ud800", "\0", "../../x",
    "/etc/passwd", "a" * 5000, "9" * 5000, [], {}, [None], [[]], [[[]]], {"x": 1}, [0] * 20, [1] * 17, [2**62] * 4,
    {"shape": [], "dtype": "float32"}, {"shape": [0], "dtype": "float32"}, {"shape": [2, 0], "dtype": "int64"},
    {"shape": [10**13], "dtype": "uint8"}, {"shape": [2], "dtype": "float32", "strides": [10**13]},
    {"tensors": []}, {"tensors": [None]}, {"tensors": [{"shape": [2], "dtype": "float32", "times": 99_999}]},
    {"tensors": [{"tensors": [{"shape": [2], "dtype": "float32"}], "times": 99_999}] * 9},
)  # fmt: skip
"""What may stand in the place of any value."""

TOKENS: tuple[bytes, ...] = (
    b"", b"\0", b"\xff\xfe", b"\n", b"\r\n", b",", b"\"", b"'", b"{", b"}", b"[", b"]", b":", b"-", b"0", b"1e999",
    b"NaN", b"Infinity", b"inf", b"n/a", b"9" * 400, b"[" * 400, b"{\"a\":" * 100, b"\x1b[31m", b"&a", b"*a",
    b"!!python", b"%", b"\x1f\x8b", b"PK\x03\x04", b" ", b"\\", b"\\u0000", b"\xed\xa0\x80", b"/*",
)  # fmt: skip
"""What may stand between any two bytes."""

CHANGES = (1, 1, 1, 2, 2, 3, 4, 6)
"""So many at a time: a file with few is more often taken in."""

MOST_DEPTH = 12


class Choices:
    """Numbers that bytes choose; zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def below(self, count: int) -> int:
        """A number from 0 to `count` - 1."""
        if count <= 1:
            return 0
        value = 0
        for _ in range((count - 1).bit_length() // 8 + 1):
            byte = self._data[self._at] if self._at < len(self._data) else 0
            value, self._at = value << 8 | byte, self._at + 1
        return value % count

    def one_of(self, values: Sequence[Any]) -> Any:
        return values[self.below(len(values))]


def changed_document(text: bytes, choices: Choices) -> Any:
    """The JSON document in a text, with some of its values replaced, left out, doubled or exchanged."""
    document, places = json.loads(text), _places_in(text)
    for _ in range(choices.one_of(CHANGES)):
        if not places:
            return _hostile(choices)
        holder, key = _found(document, choices.one_of(places))
        if not _has(holder, key):  # an earlier change has taken it away
            continue
        kind = choices.below(8)
        is_number = isinstance(holder[key], int | float) and not isinstance(holder[key], bool)
        if is_number and kind < 6:
            holder[key] = _another_number(holder[key], choices)
        elif kind < 4:
            holder[key] = _hostile(choices)
        elif kind == 4:
            del holder[key]
        elif kind == 5:
            other, name = _found(document, choices.one_of(places))
            holder[key] = json.loads(json.dumps(other[name])) if _has(other, name) else None
        elif kind == 6 and isinstance(holder, list):
            holder.insert(key, json.loads(json.dumps(holder[key])))
        else:
            holder[key] = _hostile(choices)
    return document


def _another_number(value: float, choices: Choices) -> float:
    near = (-value, value * 2, value // 2, value + 1, value - 1, 0, 1, 2**31, 2**62, 1e-9, 1e9)
    return near[choices.below(len(near))]


def _hostile(choices: Choices) -> Any:
    """A value of its own, as later changes may reach into it."""
    return json.loads(json.dumps(choices.one_of(HOSTILE)))


def changed_bytes(content: bytes, choices: Choices) -> bytes:
    """Some bytes with some parts cut out, doubled, turned, moved, or tokens put between them."""
    changed = bytearray(content)
    for _ in range(choices.one_of(CHANGES)):
        at = choices.below(len(changed) + 1)
        length = 1 + choices.below(1 << choices.below(12))
        part = changed[at : at + length]
        kind = choices.below(6)
        if kind == 0:
            changed[at:at] = choices.one_of(TOKENS)
        elif kind == 1:
            del changed[at : at + length]
        elif kind == 2:
            changed[at:at] = part
        elif kind == 3 and part:
            changed[at] ^= 1 << choices.below(8)
        elif kind == 4:
            del changed[at:]
        else:
            to = choices.below(len(changed) + 1)
            changed[to : to + length] = part
    return bytes(changed)


Place = tuple[Any, ...]
"""The keys on the way to a value."""


@lru_cache(1000)
def _places_in(text: bytes) -> Sequence[Place]:
    return list(_places(json.loads(text)))


def _places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Every value within. Of long lists the first ones, which are like the rest."""
    if len(at) > MOST_DEPTH:
        return
    keys: Sequence[Any] = list(value) if isinstance(value, dict) else ()
    if isinstance(value, list):
        keys = range(min(len(value), 8))
    for key in keys:
        yield (*at, key)
        yield from _places(value[key], (*at, key))


def _found(document: Any, place: Place) -> tuple[Any, Any]:
    """What holds the value at this place, and its key there. An empty list where there is no such place any more."""
    *way, last = place
    for key in way:
        if not _has(document, key):
            return [], last
        document = document[key]
    return document, last


def _has(holder: Any, key: Any) -> bool:
    if isinstance(holder, dict):
        return key in holder
    return isinstance(holder, list) and isinstance(key, int) and key < len(holder)
