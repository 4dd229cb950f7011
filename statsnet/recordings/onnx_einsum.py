"""ONNX's Einsum → the batched product that it is."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

_OF_TWO = re.compile(r"([a-zA-Z]+),([a-zA-Z]+)->([a-zA-Z]*)")


def as_product(equation: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Both operands as [batch, rows, depth] and [batch, depth, columns] for an equation of two operands that sums over
    letters which both have; None for any other equation, or one that does not fit the operands."""
    match = _OF_TWO.fullmatch(equation.replace(" ", ""))
    if match is None:
        return None
    one, other, result = map(set, match.groups())
    shapes = [tensor["shape"] for tensor in (left, right)]
    if [len(shape) for shape in shapes] != [len(match[1]), len(match[2])] or not (one & other) - result:
        return None
    size = dict(zip(match[1] + match[2], [*shapes[0], *shapes[1]], strict=True))

    def product(letters: set[str]) -> int:
        return math.prod(size[letter] for letter in letters)

    batch, depth = product(one & other & result), product((one & other) - result)
    rows, columns = product(one - other), product(other - one)
    return [
        {"shape": [batch, rows, depth], "dtype": left["dtype"]},
        {"shape": [batch, depth, columns], "dtype": right["dtype"]},
    ]
