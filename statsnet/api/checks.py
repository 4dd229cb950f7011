"""Checks of arguments that a command line makes itself, and warnings in place of its notes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable

from statsnet.errors import UsageError, one_of


def check_choice(name: str, value: str, allowed: Collection[str]) -> None:
    if value not in allowed:
        raise UsageError(f"'{value}' is no value for {name}", hint=one_of(value, allowed))


def check_positive(**values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise UsageError(f"{value} is no value for {name}", cause="a positive number is expected")


def warn(notes: Iterable[str]) -> None:
    """Each text once, as from the line that called the API."""
    for text in dict.fromkeys(notes):
        warnings.warn(text, stacklevel=3)
