"""Errors that a user can act on: what happened, why, and what to do next."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable


class StatsNetError(Exception):
    """One sentence, the cause and the next step; the command line prints it and exits with 1."""

    exit_code = 1

    def __init__(self, message: str, *, cause: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.hint = hint

    def __str__(self) -> str:
        return "\n".join(
            part
            for part in (
                self.message,
                self.cause and f"cause: {self.cause}",
                self.hint and f"try: {self.hint}",
            )
            if part
        )


def shown(text: str) -> str:
    """A text that may quote a file, without control characters, which could take over a terminal; a tab is a space."""
    return "".join(c if c.isprintable() or c == "\n" else " " if c == "\t" else "?" for c in text)


def printable(text: str) -> str:
    """A text in one line, without control characters."""
    return "".join(c if c.isprintable() else "?" for c in text)


class UsageError(StatsNetError):
    """The request itself is wrong (unknown name, bad weight, empty mix): exit code 2."""

    exit_code = 2


class FileFormatError(StatsNetError):
    """A file is truncated, newer than this program, or of another kind."""


class OtherFileError(FileFormatError):
    """A file is whole, but of another program."""


class WorkloadError(StatsNetError):
    """A user's factory or model failed."""


class DeviceError(StatsNetError):
    """The device asked for is not there or cannot do what was asked."""


class MeasurementError(StatsNetError):
    """A measurement failed or cannot be trusted; it is never turned into a number."""


class ModelError(MeasurementError):
    """It failed by what was measured, and would on any machine: a part of a step that nobody can see, say."""


class ProcessError(MeasurementError):
    """A measuring process ended without a result: by an exception, or by a signal that its workload may have caused."""


def lacks_memory(text: str) -> bool:
    """Whether an error's text says that memory was short: as torch says it of a GPU and of a CPU, cuBLAS, cuDNN, and
    Python."""
    words = ("out of memory", "OutOfMemoryError", "allocate memory", "ALLOC_FAILED", "MemoryError")
    return any(word in text for word in words)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, as a cause; the error's class if it has no message."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def did_you_mean(word: str, known: Iterable[str], *, otherwise: str = "", most: int = 2) -> str:
    """A hint: the known words that are nearest to a mistyped one, or begin with it, at most so many; `otherwise` where
    there is none."""
    words = list(dict.fromkeys(known))
    near = difflib.get_close_matches(word, words, n=most, cutoff=0.55)
    near += [each for each in words if len(word) > 1 and each.startswith(word) and each not in near][: most - len(near)]
    return f"did you mean {' or '.join(near)}?" if near else otherwise


def one_of(word: str, known: Iterable[str]) -> str:
    """A hint: the known words that are nearest to a mistyped one, or all of them."""
    words = list(known)
    return did_you_mean(word, words, otherwise=f"one of {', '.join(words)}")


def warn(text: str, *, stacklevel: int) -> None:
    """Warn the user. Where warnings are errors, it is printed nevertheless: an exception would lose what was measured
    for minutes."""
    try:
        warnings.warn(text, stacklevel=stacklevel)
    except Warning as raised:
        warnings.showwarning(raised, type(raised), filename="<statsnet>", lineno=1)
