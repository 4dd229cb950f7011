"""A file with some things changed, as a few bytes choose them.

The bytes are a list of choices: which value of a JSON document is replaced by what, which bytes are cut, doubled or
turned. So random bytes, Hypothesis and libFuzzer all drive the same changes, and what they arrive at is far more often
a file that a reader takes in than bytes changed blindly would be. When the bytes are used up, all further choices are
the first one.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from statsnet.signatures.canonical import number_text

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
FIRST = 8
"""Of long lists so many values are changed: the others are like them."""


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


def changed_document(text: bytes, choices: Choices) -> bytes:
    """The JSON document in a text, with some of its values replaced, left out, doubled or exchanged, and its id."""
    document = _laid_out(text)
    if not document.values:
        return _written(choices.one_of(HOSTILE)).encode()
    edits: list[Edit] = []
    for _ in range(choices.one_of(CHANGES)):
        begin, end, new = _edit(document, choices)
        if all(end <= b or e <= begin for b, e, _ in edits):  # else an earlier change has taken it away
            edits.append((begin, end, new))
    return document.with_edits(edits).encode()


Edit = tuple[int, int, str]
"""Where what is replaced begins and ends, and what stands there then."""


def _edit(document: _LaidOut, choices: Choices) -> Edit:
    value, kind = choices.one_of(document.values), choices.below(8)
    if value.number is not None and kind < 6:
        return value.begin, value.end, _another_number(value.number, choices)
    if kind == 4:
        return *value.entry, ""
    if kind == 5:
        other = choices.one_of(document.values)
        return value.begin, value.end, document.text[other.begin : other.end]
    if kind == 6 and value.is_in_list:
        return value.begin, value.begin, document.text[value.begin : value.end] + ","
    return value.begin, value.end, choices.one_of(_HOSTILE_TEXTS)


def _another_number(value: float, choices: Choices) -> str:
    near = (-value, value * 2, value // 2, value + 1, value - 1, 0, 1, 2**31, 2**62, 1e-9, 1e9)
    return _written(near[choices.below(len(near))])


def _written(value: Any) -> str:
    """On one line; numbers as files of StatsNet have them, if such a file can hold them at all."""
    if isinstance(value, float) and math.isfinite(value):
        return number_text(value)
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


_HOSTILE_TEXTS = [_written(value) for value in HOSTILE]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """Where a value stands in a text. `entry` is what goes when it is left out: its key and a comma, too."""

    begin: int
    end: int
    entry: tuple[int, int]
    is_in_list: bool
    number: float | None


class _LaidOut:
    """A JSON document on one line without its id, and where its values stand there. Changed copies are made of pieces
    of that text: to write the whole document again takes ten times as long."""

    def __init__(self, text: bytes) -> None:
        document = json.loads(text)
        self._has_id = isinstance(document, dict) and document.pop("id", None) is not None
        self.values: list[_Value] = []
        self.text = self._put(document, 0, MOST_DEPTH)

    def with_edits(self, edits: Sequence[Edit]) -> str:
        pieces, at = [], 0
        for begin, end, new in sorted(edits):
            pieces += [self.text[at:begin], new]
            at = end
        text = "".join([*pieces, self.text[at:]])
        if not self._has_id:
            return text
        name = hashlib.sha256(text.encode()).hexdigest()
        return f'{{"id":"sha256:{name}"{"" if text == "{}" else ","}{text[1:]}'

    def _put(self, value: Any, at: int, depth: int) -> str:
        """The text of a value that begins there. Notes the values within, `depth` levels down."""
        if not isinstance(value, dict | list) or not value:
            return _written(value) if self._has_id else json.dumps(value)
        is_list = isinstance(value, list)
        items = (
            [("", held) for held in value] if is_list else [(f"{json.dumps(k)}:", held) for k, held in value.items()]
        )
        text, spans = "{["[is_list], []
        for number, (key, held) in enumerate(items):
            begin = len(text) + len(key)
            is_noted = depth > 0 and (not is_list or number < FIRST)
            text += key + self._put(held, at + begin, depth - 1 if is_noted else 0) + ","
            spans.append((begin - len(key), begin, len(text) - 1))
        for number, (start, begin, end) in enumerate(spans[: FIRST if is_list else None] if depth > 0 else ()):
            is_last = number == len(spans) - 1
            held = items[number][1]
            self.values.append(
                _Value(
                    begin=at + begin,
                    end=at + end,
                    entry=(at + start - (is_last and number > 0), at + end + (not is_last)),
                    is_in_list=is_list,
                    number=held if isinstance(held, int | float) and not isinstance(held, bool) else None,
                )
            )
        return text[:-1] + "}]"[is_list]


_laid_out = lru_cache(1000)(_LaidOut)
