"""The picture of `across_gpus.py`: the proxy's factor against the suite's, one point for each pair of devices."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.across.contestants import SELECTED
from benchmarks.across.figures import AcrossRow
from statsnet.reporting.pictures import COLOURS, GREY, figure

MARGIN = 1.2


def across_svg(rows: Sequence[AcrossRow]) -> str:
    """The selected operators' factors in logarithmic axes, a colour for each suite."""
    own = [r for r in rows if r.contestant == SELECTED]
    factors = [f for r in own for f in (r.suite_factor, r.proxy_factor)]
    low, high = min(factors) / MARGIN, max(factors) * MARGIN
    with figure(6.2, 5.4) as (made, text):
        axes = made.add_subplot()
        ends = [low, high]
        axes.fill_between(ends, [0.95 * x for x in ends], [1.05 * x for x in ends], color="#d0d7de", linewidth=0)
        axes.plot(ends, ends, color=GREY, linewidth=0.8, linestyle="--")
        for number, name in enumerate(dict.fromkeys(r.name for r in own)):
            points = [r for r in own if r.name == name]
            axes.scatter(
                [r.suite_factor for r in points],
                [r.proxy_factor for r in points],
                s=14,
                color=COLOURS[number],
                label=f"{name}, {len(points)} pairs",
                linewidth=0,
            )
        axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks([tick for tick in (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0) if low <= tick <= high])
            axis.set_ticks([], minor=True)
            axis.set_major_formatter("×{x:g}")
        axes.set_xlabel("suite: time on a GPU that was left out ÷ on the proxy's own")
        axes.set_ylabel("proxy: the same")
        axes.annotate("±5 %", (low * 1.3, low * 1.3 * 0.9), color=GREY, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="upper left", frameon=False, fontsize=8, handletextpad=0.2)
    return text.getvalue()
