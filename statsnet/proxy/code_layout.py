"""Calls as lines of Python source, laid out within a width, and values as literals."""

from __future__ import annotations

import re
from typing import Any

WIDTH = 120

Call = tuple[str, list[Any]]
"""A function's name and its arguments: each is text or another call."""


def literal(value: Any) -> str:
    """Source of a configuration's value. Raises ValueError for any other value."""
    if isinstance(value, (tuple, list)):
        items = [literal(v) for v in value]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, str) and re.fullmatch(r"\w*", value, re.ASCII):
        return f'"{value}"'
    raise ValueError(f"{value!r} cannot stand in a network")


def call_lines(node: str | Call, indent: int) -> list[str]:
    """A call and its comma, on one line if it fits, else with its arguments on lines of their own."""
    pad = " " * indent
    if isinstance(node, str) or _fits(node, indent):
        return [f"{pad}{_flat(node)},"]
    name, arguments = node
    if all(isinstance(a, str) for a in arguments):
        inner = _filled(arguments, indent + 4)
    else:
        inner = [line for a in arguments for line in call_lines(a, indent + 4)]
    return [f"{pad}{name}(", *inner, f"{pad}),"]


def repeated_call_lines(node: Call, count: int, indent: int) -> list[str]:
    """Lines of `count` equal calls."""
    if count == 1:
        return call_lines(node, indent)
    pad = " " * indent
    if _fits(("*(", [node, f" for _ in range({count})"]), indent) and len(node[1]) == 1:
        return [f"{pad}*({_flat(node)} for _ in range({count})),"]
    *first, last = call_lines(node, indent + 4)
    return [f"{pad}*(", *first, last.rstrip(","), f"{pad}    for _ in range({count})", f"{pad}),"]


def _flat(node: str | Call) -> str:
    return node if isinstance(node, str) else f"{node[0]}({', '.join(_flat(n) for n in node[1])})"


def _fits(node: Call, indent: int) -> bool:
    """Whether a call goes on one line; a tower of several blocks never does."""
    long_tower = node[0] == "nn.Sequential" and len(node[1]) > 1
    return len(_flat(node)) + indent < WIDTH and not long_tower


def _filled(items: list[str], indent: int) -> list[str]:
    lines = [""]
    for item in items:
        if lines[-1] and len(lines[-1]) + len(item) + 3 + indent > WIDTH:
            lines.append("")
        lines[-1] += f" {item}," if lines[-1] else f"{item},"
    return [" " * indent + line for line in lines]
