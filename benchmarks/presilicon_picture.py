"""The picture of `presilicon.py`: how far relative speeds are off, for each mix and way to choose layers."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.presilicon import ARRAYS, PresiliconRow
from statsnet.reporting.pictures import COLOURS, GREY, figure

WAYS = ("scaled", "scaled, signed", "every dim halved", "random layers", "most expensive layers")
WIDTH = 0.16


def presilicon_svg(rows: Sequence[PresiliconRow]) -> str:
    """Bars on a logarithmic axis, inference alone. Distinct layers are exact and have none."""
    shown = [r for r in rows if r.mode == "inference" and r.model == ARRAYS]
    mixes = list(dict.fromkeys(r.mix for r in shown))
    with figure(7.6, 3.6) as (made, text):
        axes = made.add_subplot()
        for number, way in enumerate(WAYS):
            error = {r.mix: 100 * r.relative_error for r in shown if r.way == way}
            places = [place + (number - 2) * WIDTH for place in range(len(mixes))]
            axes.bar(places, [error[mix] for mix in mixes], WIDTH, color=COLOURS[number], label=way)
        axes.axhline(10.0, color=GREY, linewidth=0.8, linestyle="--")
        axes.set(yscale="log", ylim=(1.0, 2000.0), ylabel="largest error of a relative speed")
        axes.yaxis.set_ticks([1, 10, 100, 1000])
        axes.yaxis.set_ticks([], minor=True)
        axes.yaxis.set_major_formatter("{x:g} %")
        axes.set_xticks(range(len(mixes)), [mix.replace(" + ", " +\n") for mix in mixes], fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="upper left", frameon=False, fontsize=8, ncols=3, handletextpad=0.4, columnspacing=1.0)
    return text.getvalue()
