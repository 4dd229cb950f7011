"""Arguments of the Python interface as other libraries give them: numpy's numbers, classes of optimizers."""

from __future__ import annotations

import operator
from typing import Any

from statsnet.errors import UsageError


def whole_number(value: Any, name: str) -> int:
    """A positive one. Raises UsageError for anything else."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number <= 0:
        raise UsageError(f"{value!r} is no value for {name}", cause="a positive whole number is expected")
    return number


def optimizer_name(optimizer: Any) -> str:
    """Of a class, an object of one, or a name."""
    if isinstance(optimizer, str):
        return optimizer
    return (optimizer if isinstance(optimizer, type) else type(optimizer)).__name__.lower()
