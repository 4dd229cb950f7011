"""Picture of how data flow from a model to a result, and of what leaves the site of the customer who owns the model."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from statsnet.reporting.pictures import GREY, TEXT, figure

_SITE, _BORDER, _FILE, _PROXY = "#fff1e5", "#bc4c00", "#ffffff", "#ddf4ff"
_WIDTH, _HEIGHT = 8.2, 3.9
"""Of the picture. Lengths are in inches, from the lower left corner."""
_WIDE, _HIGH, _ROW = 1.46, 0.8, 0.75
"""Of a box, and where the middle of the row of boxes is."""

_STEPS = (
    (1.0, "signature", "counts and times,\nno names", _FILE),
    (2.95, "mix", "signatures\nand weights", _FILE),
    (4.8, "target", "what the mix does\nin a second", _FILE),
    (7.35, "proxy", "network.py,\nneeds torch alone", _PROXY),
)
_USES = (("run", "its time on a device"), ("compare", "two devices or settings"), ("validate", "against the models"))


def flow_svg() -> str:
    with figure(_WIDTH, _HEIGHT) as (made, text):
        axes = made.add_subplot()
        axes.set_xlim(0.0, _WIDTH)
        axes.set_ylim(0.0, _HEIGHT)
        axes.axis("off")
        _site(axes)
        for x, name, what, colour in _STEPS:
            _box(axes, x, _ROW, name, what, colour)
        for (left, *_), (right, *_) in pairwise(_STEPS):
            _arrow(axes, (left + _WIDE / 2, _ROW), (right - _WIDE / 2, _ROW))
        axes.text(6.07, _ROW + 0.1, "synthesize", ha="center", style="italic", fontsize=10)
        axes.text(2.95, 1.9, "other signatures", ha="center", fontsize=10, color=GREY)
        _arrow(axes, (2.95, 1.84), (2.95, _ROW + _HIGH / 2))
        _uses(axes)
    return text.getvalue()


def _site(axes: Any) -> None:
    """What is inside the border stays there, but for the signature."""
    _rounded(axes, 0.1, 0.1, 1.8, 3.7, _SITE, _BORDER, "--")
    axes.text(1.0, 3.58, "customer's site", color=_BORDER, weight="bold", va="center", ha="center", fontsize=10)
    _box(axes, 1.0, 2.85, "model", "source, weights,\ndata", _FILE)
    _arrow(axes, (1.0, 2.85 - _HIGH / 2), (1.0, _ROW + _HIGH / 2))
    axes.text(1.1, 1.8, "profile", va="center", style="italic", fontsize=10)
    for y, heading, what, colour in (
        (3.45, "stays", "source, weights, data, names", _BORDER),
        (2.8, "leaves", "operators, shapes, counts, times, kernels", TEXT),
    ):
        axes.text(2.1, y, heading, weight="bold", color=colour, va="center", fontsize=10)
        axes.text(2.1, y - 0.24, what, va="center", fontsize=10)


def _uses(axes: Any) -> None:
    """What is done with a proxy."""
    _arrow(axes, (7.35, _ROW + _HIGH / 2), (7.35, 2.15))
    for number, (name, what) in enumerate(_USES):
        y = 3.45 - 0.5 * number
        axes.text(6.0, y, name, weight="bold", va="center", ha="right", fontsize=10)
        axes.text(6.12, y, what, va="center", fontsize=10)


def _box(axes: Any, x: float, y: float, name: str, what: str, colour: str) -> None:
    _rounded(axes, x - _WIDE / 2, y - _HIGH / 2, _WIDE, _HIGH, colour, GREY, "-")
    axes.text(x, y + 0.21, name, ha="center", va="center", weight="bold", fontsize=11)
    axes.text(x, y - 0.13, what, ha="center", va="center", color=GREY)


def _rounded(axes: Any, x: float, y: float, wide: float, high: float, fill: str, edge: str, line: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    shape = "round,pad=0,rounding_size=0.08"
    axes.add_patch(FancyBboxPatch((x, y), wide, high, boxstyle=shape, facecolor=fill, edgecolor=edge, linestyle=line))


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "-|>", "color": TEXT, "shrinkA": 1, "shrinkB": 1})
