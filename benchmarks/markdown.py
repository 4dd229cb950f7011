"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A line for each of `lines`, whose cells stand below the header's."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *lines))
