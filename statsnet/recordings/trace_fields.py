"""Numbers in the fields of a trace's events; None where something else stands there."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

from statsnet.measure.device_kernels import Dims

LATEST_US = 2**63 // 1000
"""Clocks count nanoseconds in 64 bits."""


def nanoseconds(microseconds: Any) -> int | None:
    """Exact nanoseconds of a time in microseconds, given as a whole number or as a number's text."""
    if isinstance(microseconds, int):
        return microseconds * 1000 if abs(microseconds) < LATEST_US else None
    try:
        exact = Decimal(microseconds)
        return int((exact * 1000).to_integral_value()) if abs(exact) < LATEST_US else None
    except (InvalidOperation, TypeError, ValueError, OverflowError):
        return None


def whole(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) < 2**64 else None


def three_sizes(value: Any) -> Dims | None:
    if not isinstance(value, list) or len(value) != 3 or not all(type(n) is int and 0 <= n < 2**32 for n in value):
        return None
    return (value[0], value[1], value[2])
