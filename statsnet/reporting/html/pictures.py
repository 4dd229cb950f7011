"""Pictures of a page: what plotly.js draws, and the table behind it.

Traces and layouts are plain data, as plotly.js takes them (https://plotly.com/javascript/reference). Colours of text,
lines and backgrounds are left to the page, which knows whether the reader's system is light or dark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple

from rich.table import Table

from statsnet.errors import shown
from statsnet.reporting.html.markup import Grid, grid
from statsnet.reporting.pictures import colour_of
from statsnet.signatures.intervals import Interval

LONGEST_LABEL = 44
"""Most characters of a name beside a bar; on a narrow screen the page cuts it further."""
ROW_PX, ROOM_PX = 26, 110
MOST_POINTS = 400
"""In a cloud of points; the table behind it has the first SHOWN_ROWS."""
SHOWN_ROWS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """`note` tells units, and where the figures were measured. `drawing` is HTML, in place of traces, for what plotly
    does not draw."""

    title: str
    note: str
    table: Grid
    traces: Sequence[dict[str, Any]] = ()
    layout: dict[str, Any] = field(default_factory=dict)
    height_px: int = 360
    drawing: str = ""

    @classmethod
    def of(
        cls,
        title: str,
        note: str,
        table: Table,
        traces: Sequence[dict[str, Any]],
        layout: dict[str, Any],
        *,
        rows: float,
        legend: int,
    ) -> Picture:
        """One as high as so many rows need. Legends of many names take rows of their own on a narrow screen."""
        height_px = int(ROOM_PX + ROW_PX * max(2, rows) + (14 * legend if legend > 1 else 0))
        return cls(title=title, note=note, table=grid(table), traces=traces, layout=layout, height_px=height_px)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One row of bars, or one cloud of points. `shown` is what hovering says of each; `low` and `high` are bounds of an
    interval, `sizes` the points' diameters in pixels."""

    name: str
    x: Sequence[float | None]
    shown: Sequence[str]
    y: Sequence[float] = ()
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    sizes: Sequence[float] = ()

    @classmethod
    def of(cls, name: str, found: Sequence[Interval], shown: Sequence[str]) -> Series:
        """Values with their intervals."""
        x, low, high = [i.value for i in found], [i.low for i in found], [i.high for i in found]
        return cls(name=name, x=x, low=low, high=high, shown=shown)


class Point(NamedTuple):
    """One of a cloud, which has the name `of`. `size` is its diameter in pixels, `shown` what hovering says."""

    of: str
    x: float
    y: float
    shown: str
    size: float = 11


def clouds(points: Iterable[Point]) -> list[Series]:
    """A series for each cloud, in the order in which their first points come."""
    of_one: dict[str, list[Point]] = {}
    for point in points:
        of_one.setdefault(point.of, []).append(point)
    return [
        Series(
            name=name,
            x=[p.x for p in inside],
            y=[p.y for p in inside],
            sizes=[p.size for p in inside],
            shown=[p.shown for p in inside],
        )
        for name, inside in of_one.items()
    ]


def bars(
    title: str,
    note: str,
    names: Sequence[str],
    series: Sequence[Series],
    table: Table,
    *,
    axis: str,
    stacked: bool = False,
) -> Picture:
    """Horizontal bars, the first name on top."""
    many = len(series) > 1
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": safe(each.name),
            "x": list(each.x),
            "y": list(range(len(names))),
            "marker": {"color": colour_of(number)},
            **hover(each.shown),
        }
        for number, each in enumerate(series)
    ]
    layout = {
        "barmode": "stack" if stacked else "group",
        "xaxis": {"title": {"text": axis}, "rangemode": "tozero"},
        "yaxis": names_axis(names),
        "showlegend": many,
    }
    rows = len(names) * (1 if stacked or not many else 1.4)
    return Picture.of(title, note, table, traces, layout, rows=rows, legend=len(series))


def intervals(
    title: str, note: str, names: Sequence[str], series: Sequence[Series], table: Table, *, axis: str
) -> Picture:
    """A point with its interval for each name, on a logarithmic axis, where a factor and its inverse are alike."""
    shift = [(number - (len(series) - 1) / 2) * 0.2 for number in range(len(series))]
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": safe(each.name),
            "x": list(each.x),
            "y": [place + shift[number] for place in range(len(names))],
            "marker": {"color": colour_of(number), "size": 9},
            "error_x": _error_bars(each),
            **hover(each.shown),
        }
        for number, each in enumerate(series)
    ]
    line = {"type": "line", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper", "line": {"dash": "dot", "width": 1}}
    layout = {
        "xaxis": {"title": {"text": axis}, "type": "log"},
        "yaxis": names_axis(names),
        "shapes": [line],
        "showlegend": len(series) > 1,
    }
    return Picture.of(title, note, table, traces, layout, rows=len(names), legend=len(series))


def cloud(
    title: str,
    note: str,
    series: Sequence[Series],
    table: Table,
    *,
    x: str,
    y: str,
    log: bool = True,
    counted: bool = False,
    lines: Sequence[dict[str, Any]] = (),
) -> Picture:
    """Points; `lines` are traces of their own below them. With `counted`, x are the numbers 1, 2, ..."""
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": safe(each.name),
            "x": list(each.x),
            "y": list(each.y),
            "marker": {
                "color": colour_of(number),
                "size": list(each.sizes) or 8,
                "opacity": 0.75,
                "line": {"width": 0.5},
            },
            **hover(each.shown),
        }
        for number, each in enumerate(series)
    ]
    kind = "log" if log else "linear"
    layout = {
        "xaxis": {"title": {"text": x}, "type": kind, "exponentformat": "power", **({"dtick": 1} if counted else {})},
        "yaxis": {"title": {"text": y}, "type": kind, "exponentformat": "power"},
        "showlegend": len(series) > 1,
        "hovermode": "closest",
    }
    return Picture.of(title, note, table, [*lines, *traces], layout, rows=14, legend=len(series))


def line_trace(
    name: str, x: Sequence[float], y: Sequence[float], *, dash: str = "solid", colour: int = 9, stairs: bool = False
) -> dict[str, Any]:
    """A line; with `stairs`, it goes right and then up or down."""
    shape = "hv" if stairs else "linear"
    return {
        "type": "scatter",
        "mode": "lines",
        "name": safe(name),
        "x": list(x),
        "y": list(y),
        "line": {"dash": dash, "shape": shape, "width": 1.5, "color": colour_of(colour)},
        "hoverinfo": "name",
    }


def safe(text: str) -> str:
    """Text that plotly shows as it is: it would take tags for markup."""
    return escape(shown(text), quote=False)


def names_axis(names: Sequence[str]) -> dict[str, Any]:
    """Names may repeat, so the axis counts, and the names are its labels."""
    labels = [safe(name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}…") for name in names]
    return {
        "tickvals": list(range(len(names))),
        "ticktext": labels,
        "range": [len(names) - 0.4, -0.6],
        "automargin": True,
        "zeroline": False,
        "showgrid": False,
    }


def hover(shown_texts: Sequence[str]) -> dict[str, Any]:
    return {
        "customdata": [safe(text).replace("\n", "<br>") for text in shown_texts],
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def _error_bars(series: Series) -> dict[str, Any]:
    rows = list(zip(series.x, series.low or series.x, series.high or series.x, strict=True))
    return {
        "type": "data",
        "symmetric": False,
        "array": [0 if x is None or high is None else high - x for x, _, high in rows],
        "arrayminus": [0 if x is None or low is None else x - low for x, low, _ in rows],
    }
