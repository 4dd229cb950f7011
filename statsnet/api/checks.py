"""Checks of arguments that a command line makes itself, and warnings in place of its notes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from statsnet import errors
from statsnet.errors import UsageError, one_of


def check_choice(name: str, value: str, allowed: Collection[str]) -> None:
    if value not in allowed:
        raise UsageError(f"'{value}' is no value for {name}", hint=one_of(value, allowed))


def plain_arguments(workload: object, arguments: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    """Arguments of a workload as they can be told to another process, which builds it by its name; numpy's numbers are
    taken, too."""
    if not isinstance(workload, str):
        raise UsageError(
            f"{workload!r} is no name of a workload",
            cause="it is built in a process of its own, by its name",
            hint="write the factory to a file, and name it: 'file.py:factory'",
        )
    plain = {name: value.item() if hasattr(value, "item") else value for name, value in arguments.items()}
    for name, value in plain.items():
        if not isinstance(value, str | int | float):
            raise UsageError(f"{value!r} is no value for {name}", cause="text, a number, or True or False is expected")
    return plain


def check_positive(**values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise UsageError(f"{value} is no value for {name}", cause="a positive number is expected")


def warn(notes: Iterable[str]) -> None:
    """Each text once, as from the line that called the API."""
    for text in dict.fromkeys(notes):
        errors.warn(text, stacklevel=4)
