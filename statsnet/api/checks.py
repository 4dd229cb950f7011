"""Checks of arguments that a command line makes itself, and warnings in place of its notes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from statsnet import errors
from statsnet.errors import UsageError, one_of


def check_choice(name: str, value: str, allowed: Collection[str]) -> None:
    if value not in allowed:
        raise UsageError(f"'{value}' is no value for {name}", hint=one_of(value, allowed))


def check_named(workload: object, arguments: Mapping[str, object]) -> None:
    """A workload is told to another process: by its name, and arguments that are plain."""
    if not isinstance(workload, str):
        raise UsageError(
            f"{workload!r} is no name of a workload",
            cause="it is built in a process of its own, by its name",
            hint="write the factory to a file, and name it: 'file.py:factory'",
        )
    for name, value in arguments.items():
        if not isinstance(value, str | int | float):
            raise UsageError(f"{value!r} is no value for {name}", cause="text, a number, or True or False is expected")


def check_positive(**values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise UsageError(f"{value} is no value for {name}", cause="a positive number is expected")


def warn(notes: Iterable[str]) -> None:
    """Each text once, as from the line that called the API."""
    for text in dict.fromkeys(notes):
        errors.warn(text, stacklevel=4)
