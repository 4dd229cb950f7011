"""fit.svg of a proxy folder: what was asked of the proxy and what it has, as bars.

The SVG is written directly, since a proxy is also made where no drawing library is installed. Its card is light and has
its own text colours, so it reads the same on white and on dark pages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from statsnet.errors import printable
from statsnet.signatures.documents import Characteristic, Fit
from statsnet.units import format_compression, format_duration, format_quantity

SHOWN_FROM = 0.001
"""A category below this share, both asked and achieved, gets no bars."""
LARGEST_RATIO = 4.0
"""A longer bar is cut here, so that one rate far off leaves the others readable; its number is written in full."""

_CARD, _EDGE, _TEXT, _GREY = "#f6f8fa", "#d0d7de", "#1f2328", "#59636e"
_ASKED, _ACHIEVED = "#8c959f", "#0969da"
_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
_WIDTH, _MARGIN, _BARS_AT, _BARS_WIDTH = 720, 24, 178, 310
_VALUES_AT = _BARS_AT + _BARS_WIDTH + 12
_LONGEST_NAME, _LONGEST_VALUES = 20, 27
_RATES = ("flops_per_s", "bytes_per_s", "launches_per_s")


def fit_svg(fit: Fit) -> str:
    """The same fit gives the same bytes."""
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "font-family": _FONT, "font-size": "14"})
    root.set("role", "img")
    SubElement(root, "title").text = "What was asked of the proxy, and what it has"
    card = SubElement(root, "rect", {"x": "0.5", "y": "0.5", "rx": "6", "fill": _CARD, "stroke": _EDGE})
    y = 34 if fit.simulation is not None else _categories(root, fit.characteristics, 34)
    y = _rates(root, fit.characteristics, y)
    y = _step(root, fit, y)
    root.set("viewBox", f"0 0 {_WIDTH} {y}")
    root.set("width", str(_WIDTH))
    root.set("height", str(y))
    card.set("width", str(_WIDTH - 1))
    card.set("height", str(y - 1))
    ElementTree.indent(root, " ")
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _categories(root: Element, rows: Sequence[Characteristic], y: int) -> int:
    """Pairs of bars, in the order of the fit. Returns where the next part begins."""
    shown = [
        row for row in rows if row.group == "category" and max(row.target or 0.0, row.achieved or 0.0) >= SHOWN_FROM
    ]
    _heading(root, y, "Time by operator category, % of operator time")
    _legend(root, y)
    longest = max((max(row.target or 0.0, row.achieved or 0.0) for row in shown), default=1.0)
    y += 24
    for row in shown:
        for value, colour, top in ((row.target, _ASKED, y), (row.achieved, _ACHIEVED, y + 10)):
            _bar(root, top, (value or 0.0) / longest, colour)
        _name(root, y + 15, row.name)
        _text(root, _VALUES_AT, y + 15, f"{_percent(row.target)} → {_percent(row.achieved)}")
        y += 28
    return y + 26


def _rates(root: Element, rows: Sequence[Characteristic], y: int) -> int:
    """A bar for each rate: achieved ÷ asked, with a line where both are equal."""
    rates = [row for name in _RATES for row in rows if row.group == "rate" and row.name == name]
    if not rates:
        return y
    _heading(root, y, "Rates, achieved ÷ asked")
    y += 18
    ratios = [_ratio(row) for row in rates]
    longest = max(min(max((r for r in ratios if r is not None), default=1.0), LARGEST_RATIO), 1.0)
    for row, ratio in zip(rates, ratios, strict=True):
        _bar(root, y + 5, min(ratio or 0.0, longest) / longest, _ACHIEVED)
        _name(root, y + 15, row.name.replace("_per_s", "/s"))
        unit = row.unit.replace("1/s", "/s")
        values = f"{format_quantity(row.target, unit)} → {format_quantity(row.achieved, unit)}"
        _text(root, _VALUES_AT, y + 15, _shown_ratio(ratio))
        _text(root, _VALUES_AT + 44, y + 15, _cut(values, _LONGEST_VALUES), size=11, colour=_GREY)
        y += 24
    one = f"{_BARS_AT + _BARS_WIDTH / longest:.1f}"
    SubElement(root, "line", {"x1": one, "x2": one, "y1": str(y - 24 * len(rates)), "y2": str(y), "stroke": _TEXT}).set(
        "stroke-dasharray", "3 2"
    )
    _text(root, float(one), y + 14, "1 = as asked", anchor="end" if longest == 1.0 else "middle", size=11)
    return y + 44


def _step(root: Element, fit: Fit, y: int) -> int:
    """How long the proxy's step takes, where the fit knows it."""
    summary = fit.summary
    if summary.step_latency_s is None or summary.suite_latency_s is None or summary.compression is None:
        return y - 16
    line = (
        f"One step of the proxy takes {format_duration(summary.step_latency_s)}, one step of every workload "
        f"{format_duration(summary.suite_latency_s)}: {format_compression(summary.compression)}."
    )
    _text(root, _MARGIN, y, line, size=12, colour=_GREY)
    return y + 20


def _ratio(row: Characteristic) -> float | None:
    """None where one of the two is not known, or nothing was asked."""
    if row.target is None or row.achieved is None or row.target <= 0:
        return None
    ratio = row.achieved / row.target
    return ratio if math.isfinite(ratio) else None


def _shown_ratio(ratio: float | None) -> str:
    if ratio is None:
        return "–"
    if ratio >= 1000:
        return "> 999"
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def _heading(root: Element, y: int, text: str) -> None:
    _text(root, _MARGIN, y, text).set("font-weight", "600")


def _legend(root: Element, y: int) -> None:
    for x, colour, text in ((_VALUES_AT, _ASKED, "asked"), (_VALUES_AT + 66, _ACHIEVED, "achieved")):
        SubElement(root, "rect", {"x": str(x), "y": str(y - 10), "width": "10", "height": "10", "fill": colour})
        _text(root, x + 15, y, text, size=12)


def _bar(root: Element, y: int, part: float, colour: str) -> None:
    width = max(part, 0.0) * _BARS_WIDTH
    if width > 0:
        place = {"x": str(_BARS_AT), "y": str(y), "width": f"{width:.1f}", "height": "10", "fill": colour}
        SubElement(root, "rect", place)


def _name(root: Element, y: int, name: str) -> None:
    _text(root, _BARS_AT - 10, y, _cut(name.replace("_", " "), _LONGEST_NAME), anchor="end")


def _text(
    root: Element, x: float, y: int, text: str, *, anchor: str = "start", size: int = 14, colour: str = _TEXT
) -> Element:
    place = {"x": f"{x:g}", "y": str(y), "fill": colour}
    if anchor != "start":
        place["text-anchor"] = anchor
    if size != 14:
        place["font-size"] = str(size)
    element = SubElement(root, "text", place)
    element.text = printable(text)
    return element


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
