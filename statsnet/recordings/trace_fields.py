"""Numbers in the fields of a trace's events; None where something else stands there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
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


def is_too_late(microseconds: Any) -> bool:
    """Whether it is a number, and later than clocks count."""
    try:
        return isinstance(microseconds, int | str) and Decimal(microseconds) >= LATEST_US
    except InvalidOperation:
        return False


def whole_events(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The events that last. Some tools that convert traces write the beginning and the end of each apart (`B` and `E`,
    nested on their thread); ends without a beginning are left out, and so is what never ends. An end with a name is
    that of the last beginning with this name."""
    begun: dict[tuple[str, str], _Open] = {}
    for event in events:
        kind = event.get("ph")
        if kind == "X":
            yield event
        elif kind in ("B", "E"):
            on_thread = begun.setdefault((str(event.get("pid")), str(event.get("tid"))), _Open())
            if kind == "B":
                on_thread.begin(event)
            elif begin := on_thread.end(str(event.get("name") or "")):
                yield _joined(begin, event)


class _Open:
    """The beginnings on a thread without an end so far, and how many there are of each name."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []
        self._names: Counter[str] = Counter()

    def begin(self, event: dict[str, Any]) -> None:
        self._events.append(event)
        self._names[str(event.get("name") or "")] += 1

    def end(self, name: str) -> dict[str, Any] | None:
        """The beginning that an end with this name, or without one, belongs to."""
        if name and not self._names[name]:
            return None
        while self._events:
            event = self._events.pop()
            own = str(event.get("name") or "")
            self._names[own] -= 1
            if not name or own == name:
                return event
        return None


def _joined(begin: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
    start_ns, end_ns = nanoseconds(begin.get("ts")), nanoseconds(end.get("ts"))
    lasts = None if start_ns is None or end_ns is None else str(Decimal(end_ns - start_ns) / 1000)
    args = [a for a in (begin.get("args"), end.get("args")) if isinstance(a, dict)]
    return {**begin, "dur": lasts, "args": {name: value for each in args for name, value in each.items()}}


def whole(value: Any) -> int | None:
    """A whole number, also as text, and as `101.0`: so a table's column of numbers with gaps is written again."""
    try:
        is_whole = isinstance(value, float) and value.is_integer()
        number = int(value if is_whole else str(value).removesuffix(".0"))
    except ValueError:
        return None
    return number if abs(number) < 2**64 else None


def three_sizes(value: Any) -> Dims | None:
    if not isinstance(value, list) or len(value) != 3 or not all(type(n) is int and 0 <= n < 2**32 for n in value):
        return None
    return (value[0], value[1], value[2])
