"""Pictures of a page: what plotly.js draws, and the table behind it.

Traces and layouts are plain data, as plotly.js takes them (https://plotly.com/javascript/reference). Colours of text,
lines and backgrounds are left to the page, which knows whether the reader's system is light or dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from rich.table import Table

from statsnet.errors import shown
from statsnet.reporting.html.markup import Grid, grid
from statsnet.reporting.pictures import COLOURS
from statsnet.signatures.intervals import Interval

LONGEST_LABEL = 44
"""Of a name beside a bar, in characters; on a narrow screen the page cuts it further."""
ROW_PX, ROOM_PX = 26, 110
NARROW = 0.01
"""Stretches of a smaller part of a timeline are drawn without an edge."""
MOST_POINTS = 400
"""Of a cloud of points; the table behind it has the first SHOWN_ROWS."""
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
            "marker": {"color": COLOURS[number % len(COLOURS)]},
            **_hover(each.shown),
        }
        for number, each in enumerate(series)
    ]
    layout = {
        "barmode": "stack" if stacked else "group",
        "xaxis": {"title": {"text": axis}, "rangemode": "tozero"},
        "yaxis": _names_axis(names),
        "showlegend": many,
    }
    rows = len(names) * (1 if stacked or not many else 1.4)
    return Picture(
        title=title, note=note, table=grid(table), traces=traces, layout=layout, height_px=_height(rows, len(series))
    )


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
            "marker": {"color": COLOURS[number % len(COLOURS)], "size": 9},
            "error_x": _error_bars(each),
            **_hover(each.shown),
        }
        for number, each in enumerate(series)
    ]
    line = {"type": "line", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper", "line": {"dash": "dot", "width": 1}}
    layout = {
        "xaxis": {"title": {"text": axis}, "type": "log"},
        "yaxis": _names_axis(names),
        "shapes": [line],
        "showlegend": len(series) > 1,
    }
    return Picture(
        title=title,
        note=note,
        table=grid(table),
        traces=traces,
        layout=layout,
        height_px=_height(len(names), len(series)),
    )


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
                "color": COLOURS[number % len(COLOURS)],
                "size": list(each.sizes) or 8,
                "opacity": 0.75,
                "line": {"width": 0.5},
            },
            **_hover(each.shown),
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
    return Picture(
        title=title,
        note=note,
        table=grid(table),
        traces=[*lines, *traces],
        layout=layout,
        height_px=_height(14, len(series)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of one row of a timeline. Stretches of one name have one colour. `shown` is what hovering says."""

    row: int
    name: str
    start: float
    length: float
    shown: str


def timeline(
    title: str, note: str, rows: Sequence[str], stretches: Sequence[Stretch], table: Table, *, axis: str
) -> Picture:
    """Rows of stretches along one axis, the first row on top."""
    by_name: dict[str, list[Stretch]] = {}
    for each in stretches:
        by_name.setdefault(each.name, []).append(each)
    narrow = NARROW * max((each.start + each.length for each in stretches), default=0.0)
    # An edge would hide what is narrow.
    edges_px = {name: [0.5 if each.length > narrow else 0 for each in of_one] for name, of_one in by_name.items()}
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": safe(name),
            "base": [each.start for each in of_one],
            "x": [each.length for each in of_one],
            "y": [each.row for each in of_one],
            "marker": {"color": COLOURS[number % len(COLOURS)], "line": {"color": "#ffffff", "width": edges_px[name]}},
            **_hover([each.shown for each in of_one]),
        }
        for number, (name, of_one) in enumerate(by_name.items())
    ]
    layout = {
        "barmode": "overlay",
        "bargap": 0.15,
        "xaxis": {"title": {"text": axis}, "rangemode": "tozero"},
        "yaxis": _names_axis(rows),
        "showlegend": True,
    }
    return Picture(
        title=title,
        note=note,
        table=grid(table),
        traces=traces,
        layout=layout,
        height_px=_height(2 * len(rows), len(by_name)),
    )


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
        "line": {"dash": dash, "shape": shape, "width": 1.5, "color": COLOURS[colour % len(COLOURS)]},
        "hoverinfo": "name",
    }


def safe(text: str) -> str:
    """Text that plotly shows as it is: it would take tags for markup."""
    return escape(shown(text), quote=False)


def thinned(values: Sequence[float], most: int) -> list[float]:
    """At most so many values with the same distribution: quantiles of the sorted values."""
    ordered = sorted(values)
    if len(ordered) <= most:
        return ordered
    return [ordered[math.floor((number + 0.5) * len(ordered) / most)] for number in range(most)]


def _names_axis(names: Sequence[str]) -> dict[str, Any]:
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


def _hover(shown_texts: Sequence[str]) -> dict[str, Any]:
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


def _height(rows: float, series: int) -> int:
    """Legends of many names take rows of their own on a narrow screen."""
    return int(ROOM_PX + ROW_PX * max(2, rows) + (14 * series if series > 1 else 0))
