"""A report as one page: sections of pictures and tables, with plotly.js inside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from statsnet.errors import StatsNetError, UsageError
from statsnet.reporting.html import markup
from statsnet.reporting.html.page import as_html, beside, command, page
from statsnet.reporting.html.pictures import Picture
from statsnet.reporting.tables import Report

MOST_BYTES = 8_000_000
"""What a page may take: it is sent by mail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One subject: its title, pictures, and its tables, which are hidden at first unless `is_open`."""

    title: str
    pictures: Sequence[Picture]
    tables: Report
    command: str = ""
    is_open: bool = False


def check_library() -> None:
    """Raises UsageError where plotly is not installed."""
    if find_spec("plotly") is None:
        raise UsageError(
            "no report can be made", cause="plotly is not installed", hint="pip install 'statsnet[report]'"
        )


def document(title: str, sections: Sequence[Section], made_by: str, *, notes: Sequence[str] = ()) -> str:
    """The page. Raises StatsNetError if it would be larger than MOST_BYTES."""
    from plotly.offline import get_plotlyjs

    links = "".join(f'<li><a href="#s{n}">{as_html(s.title)}</a></li>' for n, s in enumerate(sections))
    body = [command(made_by)]
    body += [f"<p>{as_html(note)}</p>" for note in notes]
    body += [f"<nav><ul>{links}</ul></nav>"] if len(sections) > 1 else []
    body += [_section(number, section) for number, section in enumerate(sections)]
    drawn = any(picture.traces for section in sections for picture in section.pictures)
    scripts = f"<script>{get_plotlyjs()}</script>\n<script>\n{beside('draw.js')}</script>" if drawn else ""
    text = page(title, "\n".join(body), scripts=scripts)
    if len(text.encode()) > MOST_BYTES:
        raise StatsNetError(
            f"the report would take {len(text.encode()) / 1e6:.1f} MB",
            cause=f"a report may take {MOST_BYTES / 1e6:.0f} MB, since it is sent by mail",
            hint="name fewer files",
        )
    return text


def _section(number: int, section: Section) -> str:
    parts = [f'<section id="s{number}"><h2>{as_html(section.title)}</h2>']
    parts += [command(section.command)] if section.command else []
    parts += [_figure(picture) for picture in section.pictures]
    if section.tables:
        opened = " open" if section.is_open or not section.pictures else ""
        parts.append(f"<details{opened}><summary>all figures</summary>{markup.html(section.tables)}</details>")
    return "\n".join([*parts, "</section>"])


def _figure(picture: Picture) -> str:
    caption = f"<figcaption>{as_html(picture.title)}<small>{as_html(picture.note)}</small></figcaption>"
    drawing = picture.drawing
    if picture.traces:
        data = json.dumps({"traces": list(picture.traces), "layout": picture.layout}, allow_nan=False)
        # A `</script>` in a text from a file would end the element.
        inside = data.replace("<", "\\u003c")
        drawing = (
            f'<div class="plot" role="img" aria-label="{as_html(picture.title)}" '
            f'style="height:{picture.height_px}px"></div><script type="application/json">{inside}</script>'
        )
    table = f"<details><summary>as a table</summary>{markup.html_grid(picture.table)}</details>"
    return f"<figure>{caption}{drawing}{table}</figure>"
