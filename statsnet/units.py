"""Parsing and printing of quantities. Everything inside the program is in base units (s, B, FLOP)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from statsnet.errors import UsageError

_TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "m": 60.0, "min": 60.0, "h": 3600.0}
_LONGEST_S = 366 * 24 * 3600.0
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def parse_duration_s(text: str) -> float:
    """`"10ms"` -> 0.01. Raises UsageError unless it is a positive number followed by a unit of time."""
    parts = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)\s*([a-zµ]+)\s*", text)
    seconds = float(parts[1]) * _TIME_UNITS.get(parts[2], 0.0) if parts else 0.0
    if not 0 < seconds <= _LONGEST_S:
        raise UsageError(
            f"'{text}' is not a duration",
            cause="a positive number with a unit is expected, of a year at most",
            hint="for example 10ms, 0.5s or 800us",
        )
    return seconds


def parse_count(text: str) -> int:
    """`"50M"` -> 50_000_000 (decimal prefixes). Raises UsageError unless it is a whole positive number."""
    parts = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kMGTP]?)\s*", text)
    scale = next((scale for scale, prefix in _PREFIXES if parts and prefix == parts[2]), 1.0)
    count = Decimal(parts[1]) * Decimal(scale) if parts else Decimal(0)  # 4.1e6 is whole, 4.1 * 1e6 is not
    if not 1 <= count <= 10**18 or count != round(count):
        raise UsageError(
            f"'{text}' is not a count",
            cause="a whole positive number is expected, with k, M, G, T or P behind it or nothing",
            hint="for example 50M or 50000000",
        )
    return round(count)


def _digits(value: float) -> str:
    """Three digits, or as many as a whole number has: 1010 KiB is less than a MiB, and not 1.01e+03 KiB."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


def format_duration(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(seconds) >= scale:
            return f"{_digits(seconds / scale)} {unit}"
    return f"{_digits(seconds / 1e-9)} ns"


def format_quantity(value: float | None, unit: str = "") -> str:
    """12_300_000_000, "FLOP" -> "12.3 GFLOP" (decimal prefixes)."""
    if value is None:
        return "–"
    for scale, prefix in _PREFIXES:
        if abs(value) >= scale:
            return f"{_digits(value / scale)} {prefix}{unit}"
    return f"{_digits(value)} {unit}".rstrip()


def format_bytes(value: float | None) -> str:
    if value is None:
        return "–"
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if abs(value) >= 1024**power:
            return f"{_digits(value / 1024**power)} {unit}"
    return f"{value:.0f} B"


def plural(count: int, noun: str) -> str:
    """1, "workload" -> "1 workload"; 2, "workload" -> "2 workloads"; 2, "process" -> "2 processes"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{'es' if noun.endswith('s') else 's'}"


def listed(names: Sequence[str], most: int, between: str = ", ") -> str:
    """The first ones, and how many others there are: `a, b, 3 more`."""
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return between.join([*names[:most], *more])


def format_compression(compression: float | None) -> str:
    """How long one step is beside a suite's: 51.3 -> "51.3 times shorter", 0.5 -> "2 times as long", 1 -> "as long"."""
    if not compression:
        return "–"
    if f"{compression:.2f}" == "1.00":
        return "as long"
    return f"{compression:.3g} times shorter" if compression >= 1 else f"{1 / compression:.3g} times as long"
