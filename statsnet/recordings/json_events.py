"""The events of a Chrome trace, one by one, so that a file of gigabytes is never in memory as a whole.

Recorders write files that are not quite JSON: bare `inf` and `N/A`, control characters and stray backslashes in names.
Each event is decoded by Python's own decoder; only one that it refuses is repaired and tried again.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, TextIO

from statsnet.errors import FileFormatError
from statsnet.progress import Progress, Report, silent
from statsnet.signatures.gzipped import open_unpacked, reading

CHUNK = 1 << 16
"""Characters read at a time. For each event that it refuses, Python's decoder counts the lines before it."""

TOLD = 1 << 22
"""Characters after which it is reported how far a file has been read."""

MOST_NESTING = 10_000
"""Deeper than Python's decoder goes."""

MANY, SHORTEST = 1_000_000, 20
"""So MANY events are refused if their mean is shorter: an event has at least a name and a time."""

HINT = "give a trace that torch.profiler wrote: profile(...).export_chrome_trace('trace.json.gz')"

# Numbers with a fraction stay text: microseconds of a clock with nanoseconds have more digits than a double.
_DECODER = json.JSONDecoder(strict=False, parse_float=str, parse_constant=lambda _: None)
_PATIENT_DECODER = json.JSONDecoder(
    strict=False, parse_float=str, parse_constant=lambda _: None,
    parse_int=lambda text: int(text) if len(text) < 100 else None,
)  # fmt: skip
_SPACE = re.compile(r"\s*")
_BETWEEN = re.compile(r"[\s,]*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|["{}\[\]]', re.DOTALL)
_STRING_OR_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"{}\[\]:,]+', re.DOTALL)
_PLAIN = re.compile(r"true|false|null|NaN|-?Infinity|-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


class ChromeTrace:
    """A trace file. Iterating gives its events; `head` has the file's other fields, all of them when it has ended.
    How far it has been read is reported, if it is not soon over.

    Raises FileFormatError for a file that cannot be read, ends too early, or is of another tool.
    """

    def __init__(self, path: Path, report: Report = silent) -> None:
        self.path = path
        self.head: dict[str, Any] = {}
        self._report = report

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with reading(self.path), open_text(self.path) as stream:
            yield from self._events(_Text(stream, self.path, self._report))

    def _events(self, text: _Text) -> Iterator[dict[str, Any]]:
        first = text.peek()
        if first == "[":  # the format's short form
            text.part = "its list of events"
            yield from text.items()
            return
        if first != "{":
            cause = f"it begins with {first!r}" if first else "it is empty"
            raise FileFormatError(f"'{self.path}' is no trace", cause=cause, hint=HINT)
        text.skip("{")
        found = False
        while text.peek() != "}":
            name = str(text.value())
            text.skip(":")
            if name == "traceEvents" and text.peek() == "[":
                found, text.part = True, "its list of events"
                yield from text.items()
                text.part = "the fields after its events"
            else:
                self.head[name] = text.value()
            if text.peek() == ",":
                text.skip(",")
        if not found:
            known = ", ".join(str(key)[:30] for key in list(self.head)[:4]) or "nothing"
            cause = f"it has no list traceEvents (it has {known})"
            raise FileFormatError(f"'{self.path}' is no trace of a profiler", cause=cause, hint=HINT)


def open_text(path: Path) -> TextIO:
    """A file's text, whether or not it is compressed with gzip. Bytes that are not UTF-8 are replaced."""
    return io.TextIOWrapper(open_unpacked(path), encoding="utf-8-sig", errors="replace")


class _Text:
    """JSON text, read as it is needed. `part` is what is being read, for messages."""

    def __init__(self, stream: TextIO, path: Path, report: Report) -> None:
        self._stream = stream
        self._path = path
        self._report = report
        self._bytes = max(os.fstat(stream.fileno()).st_size, 1)
        self._text = ""
        self._at = self._read = self._told = 0
        self._line = 1
        self._ended = False
        self.part = "the fields before its events"

    def peek(self, skipped: re.Pattern[str] = _SPACE) -> str:
        """The next character that is not white space, or not `skipped`; empty at the end."""
        while True:
            space = skipped.match(self._text, self._at)
            assert space is not None
            self._at = space.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def skip(self, character: str) -> None:
        if self.peek() != character:
            self._refuse(f"{character!r} is missing")
        self._at += 1

    def items(self) -> Iterator[dict[str, Any]]:
        """The objects of a list."""
        self.skip("[")
        count = 0
        while self.peek(_BETWEEN) != "]":
            if isinstance(value := self.value(), dict):
                yield value
            count += 1
            if count % MANY == 0 and self._read < count * SHORTEST:
                few = f"fewer than {SHORTEST} characters each on average"
                self._refuse(f"its first {count} events have {few}: these are no profiler events")
        self._at += 1

    def value(self) -> Any:
        """The value that comes next."""
        self.peek()
        while True:
            value: Any = None
            end: int | None
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except (ValueError, RecursionError):  # also a number of more digits than Python reads
                end = self._end_of_value()
                if end is not None:
                    value = self._repaired(self._text[self._at : end])
            if end is not None and (end < len(self._text) or self._ended):  # a number may go on in the next chunk
                self._at = end
                return value
            if not self._more():
                self._refuse("it ends in the middle of a value")

    def _more(self) -> bool:
        """Drop what has been read, and read on: as much as is left over, so that long values take linear time."""
        if self._read - self._told >= TOLD:
            self._told = self._read
            done = os.lseek(self._stream.fileno(), 0, os.SEEK_CUR) / self._bytes  # also of a compressed file
            self._report(Progress(stage=f"reading {self._path.name}", done=min(done, 1.0)))
        self._line += self._text.count("\n", 0, self._at)
        rest = self._text[self._at :]
        chunk = self._stream.read(max(CHUNK, len(rest)))
        self._text, self._at, self._read = rest + chunk, 0, self._read + len(chunk)
        self._ended = not chunk
        return bool(chunk)

    def _end_of_value(self) -> int | None:
        """Where the object or list that begins here ends; None if that has not been read yet."""
        depth = 0
        for token in _TOKEN.finditer(self._text, self._at):
            mark = token[0]
            if mark == '"':  # a string that goes on
                return None
            depth += (mark in "{[") - (mark in "}]")
            if depth > MOST_NESTING:
                self._refuse("it is nested too deeply")
            if mark in "}]" and depth <= 0:
                return token.end()
        return None

    def _repaired(self, text: str) -> Any:
        """The value without what JSON does not know: bare words become null."""
        try:
            return _PATIENT_DECODER.decode(_STRING_OR_WORD.sub(_repair, text))
        except (json.JSONDecodeError, RecursionError) as error:
            self._refuse(getattr(error, "msg", "it is nested too deeply"))

    def _refuse(self, why: str) -> NoReturn:
        line = self._line + self._text.count("\n", 0, self._at)
        ended = "ends in the middle" in why or (self._ended and self._at >= len(self._text.rstrip()))
        cause = f"it ends in line {line}, in the middle of {self.part}" if ended else f"line {line}: {why}"
        kind = "is cut short" if ended else "is not JSON"
        hint = "copy or record it once more" if ended else HINT
        raise FileFormatError(f"'{self._path}' {kind}", cause=cause, hint=hint)


def _repair(token: re.Match[str]) -> str:
    text = token[0]
    if text.startswith('"'):
        return re.sub(r"\\(.)", lambda m: m[0] if m[1] in '"\\/bfnrtu' else "\\" + m[0], text, flags=re.DOTALL)
    return text if _PLAIN.fullmatch(text) else "null"
