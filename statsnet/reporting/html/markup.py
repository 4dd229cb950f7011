"""Tables and lines of a report as Markdown and as HTML. Texts come from files, so they are escaped."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from statsnet.reporting.tables import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table as text: `head` is None where names and values stand side by side; `left` says which columns hold
    words."""

    title: str
    head: tuple[str, ...] | None
    rows: tuple[tuple[str, ...], ...]
    left: tuple[bool, ...]


def grid(made: Table) -> Grid:
    """What `tables.table` and `tables.pairs` were given."""
    columns = [[_text(cell) for cell in column.cells] for column in made.columns]
    return Grid(
        title=_text(made.title or ""),
        head=tuple(_text(column.header) for column in made.columns) if made.show_header else None,
        rows=tuple(zip(*columns, strict=True)),
        left=tuple(column.justify == "left" for column in made.columns),
    )


def markdown(report: Report) -> str:
    """Tables and paragraphs, as GitHub shows them."""
    return "\n".join(_markdown_grid(grid(p)) if isinstance(p, Table) else _markdown_lines(_text(p)) for p in report)


def html(report: Report) -> str:
    """Tables in boxes that scroll on a narrow screen, and lists of notes: the inner part of a page."""
    return "\n".join(html_grid(grid(p)) if isinstance(p, Table) else _html_lines(_text(p)) for p in report)


def html_grid(made: Grid) -> str:
    caption = f"<caption>{escape(made.title)}</caption>" if made.title else ""
    head = ""
    if made.head is not None:
        cells = zip(made.head, made.left, strict=True)
        head = f"<thead><tr>{''.join(_cell('th', text, is_left) for text, is_left in cells)}</tr></thead>"
    rows = (
        f"<tr>{''.join(_cell('td', text, is_left) for text, is_left in zip(row, made.left, strict=True))}</tr>"
        for row in made.rows
    )
    kind = "" if made.head is not None else ' class="pairs"'
    return f'<div class="wide"><table{kind}>{caption}{head}<tbody>\n{chr(10).join(rows)}\n</tbody></table></div>'


def _cell(tag: str, text: str, is_left: bool) -> str:
    return f"<{tag}>{escape(text)}</{tag}>" if is_left else f'<{tag} class="n">{escape(text)}</{tag}>'


def _html_lines(text: str) -> str:
    """A heading with indented lines below it is a list; anything else a paragraph."""
    first, *rest = text.split("\n")
    if rest and all(each.startswith("  ") for each in rest):
        items = "".join(f"<li>{escape(each.strip())}</li>" for each in rest)
        return f'<p class="notes">{escape(first)}</p><ul>{items}</ul>'
    return f"<p>{escape(text)}</p>"


def _markdown_grid(made: Grid) -> str:
    head = made.head if made.head is not None else ("",) * len(made.left)
    lines = [f"**{_plain(made.title)}**", ""] if made.title else []
    lines.append(_markdown_row(head))
    lines.append(f"|{'|'.join('---' if is_left else '---:' for is_left in made.left)}|")
    return "\n".join([*lines, *(_markdown_row(row) for row in made.rows), ""])


def _markdown_row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(_plain(cell) for cell in cells)} |"


def _markdown_lines(text: str) -> str:
    first, *rest = text.split("\n")
    lines = [_plain(first), *([""] if rest else []), *(f"- {_plain(each.strip())}" for each in rest)]
    return "\n".join([*lines, ""])


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", text).replace("\n", " ")


def _text(part: RenderableType) -> str:
    return part.plain if isinstance(part, Text) else str(part)
