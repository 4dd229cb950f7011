"""Tables on a narrow terminal: rows one below the other, before figures break in the middle."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from statsnet.reporting.html.markup import grid

NARROWEST_WORDS = 16
"""Columns of words, such as names of kernels, may break after so many characters."""
BETWEEN = 3


def fitted(part: RenderableType, width: int) -> RenderableType:
    """A table that is too wide, even with its words broken, as a list of its rows; all else as it is."""
    if not isinstance(part, Table) or not part.show_header or _narrowest(part) <= width:
        return part
    found = grid(part)
    lines = [Text(found.title, style="bold")] if found.title else []
    for row in found.rows:
        lines.append(Text(row[0]))
        lines += [Text(f"  {head}: {cell}") for head, cell in zip((found.head or ())[1:], row[1:], strict=True)]
    return Text("\n").join(lines)


def _narrowest(table: Table) -> int:
    """The width at which every figure still stands in one piece."""
    return sum(_widths(table)) + BETWEEN * (len(table.columns) - 1)


def _widths(table: Table) -> Iterator[int]:
    found = grid(table)
    for number, is_left in enumerate(found.left):
        texts = [*(found.head or ())[number : number + 1], *(row[number] for row in found.rows)]
        longest = max((cell_len(word) for text in texts for word in text.split()), default=0)
        yield min(longest, NARROWEST_WORDS) if is_left else longest
