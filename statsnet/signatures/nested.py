"""Nested tensors: rows of different lengths in one, as their encoding tells (operators.py)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

MOST_ROWS = 10_000
"""In a nested tensor that is made up, where each row is a tensor of its own."""

OF_OTHER_AXIS = 2
"""The squares of lengths add up to the longest times all of them at most; in a file with rounded numbers, to somewhat
more. If they are so many times as much, they are lengths of another axis."""


@dataclass(frozen=True, slots=True)
class Nested:
    """Lengths of the rows."""

    lengths: tuple[int, ...]

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether a nested tensor of such rows has this shape, that of its longest rows."""
        whole = all(isinstance(n, int) and n >= 0 for n in self.lengths) and 0 < len(self.lengths) <= MOST_ROWS
        return whole and shape[:2] == (len(self.lengths), max(self.lengths))

    def elements(self, shape: tuple[int, ...]) -> int:
        """How many numbers a nested tensor of this shape stores."""
        return sum(self.lengths) * math.prod(shape[2:])

    def resized(self, rows: int, longest: int) -> Nested:
        """So many rows, the longest of them so long, the others spread over the given ones."""
        factor, others = longest / max(1, *self.lengths), sorted(self.lengths)[:-1] or self.lengths
        kept = [others[(2 * i + 1) * len(others) // (2 * rows - 2)] for i in range(rows - 1)]
        return Nested((longest, *(max(1, round(n * factor)) for n in kept)))


def is_nested(encoded: dict[str, Any]) -> bool:
    return encoded.get("squares") is not None


def lengths_of(encoded: dict[str, Any]) -> tuple[int, ...]:
    """Lengths of a nested tensor's rows: the longest is as long as in the encoded one, they add up to as much, and
    their squares nearly so, as far as a file with rounded numbers allows. Raises NotImplementedError if there are too
    many, and if they differ along another axis than the second."""
    batch, longest, *rest = encoded["shape"]
    if batch > MOST_ROWS:
        raise NotImplementedError("a nested tensor of so many rows is not made up")
    total = encoded["elements"] // max(1, math.prod(rest))
    if encoded["squares"] > OF_OTHER_AXIS * longest * total:
        raise NotImplementedError("a nested tensor of rows that differ along another axis is not made up")
    return tuple(nested_lengths(batch, longest, total, encoded["squares"]))


def nested_lengths(batch: int, longest: int, total: int, squares: int) -> list[int]:
    """A linear run of lengths with this sum, and nearly this sum of squares."""
    if batch <= 1:
        return [longest] * batch
    left, rows = total - longest, batch - 1
    mean = left / rows
    spread = math.sqrt(max(0.0, (squares - longest**2) / rows - mean**2))
    # Evenly spaced lengths around the mean have this deviation if the outermost are so far from it.
    reach = spread * math.sqrt(3 * (rows - 1) / (rows + 1)) if rows > 1 else 0.0
    wanted = [mean + reach * (2 * i / max(1, rows - 1) - 1) for i in range(rows)]
    lengths = [min(longest, max(0, round(w))) for w in wanted]
    return [longest, *_with_sum(lengths, left, longest)]


def _with_sum(lengths: list[int], wanted: int, longest: int) -> list[int]:
    """The lengths, changed evenly so that they add up to `wanted`, as far as none is longer than `longest`."""
    gap, before = wanted - sum(lengths), 0
    while gap not in (0, before):
        before = gap
        for i, length in enumerate(lengths):
            step = max(1, abs(gap) // len(lengths))
            lengths[i] = min(longest, max(0, length + (step if gap > 0 else -step)))
            gap -= lengths[i] - length
            if not gap:
                break
    return lengths
