"""Pictures of a fidelity run: does a proxy's time change by its suite's factor?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.fidelity_table import FidelityRow
from benchmarks.suites import MACHINES, mix_name, spelled_out
from statsnet.reporting.pictures import COLOURS, GREY, figure
from statsnet.units import format_duration

SETTINGS = {
    "threads=1": "one thread",
    "onednn=sse41": "oneDNN without AVX",
    "mkl=compatible": "MKL in compatible mode",
    "aten=default": "ATen without AVX",
    "dtype=bfloat16": "bfloat16",
    "layout=channels_last": "channels last",
    "compile=inductor": "compiled",
}
"""Setting -> what it is called in a picture. Others are called what they are called on the command line."""

_SUITE, _PROXY = "#8c959f", "#0969da"
"""Grey and blue, as what was asked and achieved in the picture of a proxy's fit."""
_MIXES = tuple(COLOURS[number] for number in (0, 1, 2, 4, 6, 8, 3, 9, 5, 7))
"""Those that differ most from one another and from the card come first."""
_MARKERS = "os^DvPX*<>"
_TICKS = (0.25, 0.5, 1.0, 2.0, 4.0)
_LEGEND = {"frameon": False, "handletextpad": 0.2, "borderaxespad": 0.0, "alignment": "left", "fontsize": 8.5}


def factors_svg(rows: Sequence[FidelityRow], machine: str) -> str:
    """The proxy's factor against the suite's, a panel for each mode."""
    mixes, settings, modes = (
        list(dict.fromkeys(getattr(r, name) for r in rows)) for name in ("mix", "setting", "mode")
    )
    colours = {mix: _MIXES[number % len(_MIXES)] for number, mix in enumerate(mixes)}
    markers = {setting: _MARKERS[number % len(_MARKERS)] for number, setting in enumerate(settings)}
    bounds = [bound for row in rows for bound in (*_interval(row, "suite"), *_interval(row, "proxy"))]
    with figure(8.4, 4.8) as (made, text):
        panels = made.subplots(1, len(modes), sharey=True, squeeze=False)[0]
        for axes, mode in zip(panels, modes, strict=True):
            _diagonal(axes, 0.9 * min(bounds), 1.1 * max(bounds))
            shown = [row for row in rows if row.mode == mode]
            for row in shown:
                _point(axes, row, markers[row.setting], colours[row.mix])
            axes.set_title(f"{mode}, {len(shown)} comparisons", fontsize=11)
            axes.set_xlabel("suite: time under the setting ÷ baseline")
        panels[0].set_ylabel("proxy: time under the setting ÷ baseline")
        made.supxlabel(f"Error bars: 95 % intervals. {MACHINES.get(machine, machine)}", fontsize=8, color=GREY)
        by_length = sorted(mixes, key=lambda mix: -len(mix_name(mix)))  # the free corner is a triangle
        dots = [_key("o", colours[mix], mix_name(mix)) for mix in by_length]
        shapes = [_key(markers[setting], GREY, SETTINGS.get(setting, setting)) for setting in settings]
        for axes, handles, title in ((panels[0], shapes, "setting"), (panels[-1], dots, "mix")):
            axes.add_artist(axes.legend(handles=handles, title=title, loc="upper left", **_LEGEND))
    return text.getvalue()


def hero_svg(rows: Sequence[FidelityRow], machine: str) -> str:
    """One mix in one mode: a step's time at the baseline and under each setting. The suite's seconds and the proxy's
    milliseconds are scaled so that both baselines are equally long."""
    base = rows[0]
    if base.step_latency_s is None or base.compression is None:
        raise ValueError("the first row lacks the proxy's time")
    proxy_s, suite_s = base.step_latency_s, base.step_latency_s * base.compression
    suite = [1.0, *(row.suite_factor for row in rows)]
    proxy = [1.0, *(row.proxy_factor for row in rows)]
    longest = 1.34 * max(*suite, *proxy)  # times and factors stand to the right of the bars
    with figure(8.4, 5.6) as (made, text):
        axes = made.add_subplot()
        above = axes.twiny()
        _bars(axes, suite, suite_s, "s", -0.2, _SUITE, GREY)
        _bars(above, proxy, 1e3 * proxy_s, "ms", 0.2, _PROXY, _PROXY)
        axes.set_xlim(0.0, longest * suite_s)
        above.set_xlim(0.0, longest * 1e3 * proxy_s)
        axes.set_xlabel("suite: one step of every workload, seconds", color=GREY)
        above.set_xlabel("proxy: one step, milliseconds", color=_PROXY)
        axes.set_yticks(range(len(suite)), ["baseline", *(SETTINGS.get(row.setting, row.setting) for row in rows)])
        axes.tick_params(axis="y", length=0, labelsize=10)
        axes.invert_yaxis()
        for one in (axes, above):
            one.spines[["left", "right"]].set_visible(False)
        title = f"A step of {format_duration(proxy_s)} stands for {format_duration(suite_s)} of models"
        made.suptitle(f"{title}, and changes by nearly the same factor", fontsize=12)
        workloads = spelled_out(base.mix).count(",") + 1
        note = f"{mix_name(base.mix)}: {workloads} workloads, {base.mode}, on {MACHINES.get(machine, machine)}."
        made.supxlabel(f"{note} Bars: time at the baseline × measured factor.", fontsize=8, color=GREY)
    return text.getvalue()


def _bars(
    axes: Any, factors: Sequence[float], base: float, unit: str, shift: float, colour: str, text_colour: str
) -> None:
    """A bar for each factor, the baseline's first, with its time and its factor."""
    for number, factor in enumerate(factors):
        axes.barh(number + shift, factor * base, 0.38, color=colour)
        labels = [(6, f"{factor * base:.3g} {unit}", "normal")]
        labels += [(54, f"×{factor:.2f}", "bold")] if number else []
        for offset, label, weight in labels:
            axes.annotate(
                label,
                (factor * base, number + shift),
                xytext=(offset, 0),
                textcoords="offset points",
                va="center",
                weight=weight,
                color=text_colour,
            )


def _point(axes: Any, row: FidelityRow, marker: str, colour: str) -> None:
    arms = []
    for value, (low, high) in (
        (row.suite_factor, _interval(row, "suite")),
        (row.proxy_factor, _interval(row, "proxy")),
    ):
        arms.append([[value - low], [high - value]])
    axes.errorbar(
        row.suite_factor,
        row.proxy_factor,
        xerr=arms[0],
        yerr=arms[1],
        fmt=marker,
        color=colour,
        markersize=6,
        markeredgecolor="white",
        markeredgewidth=0.5,
        elinewidth=0.9,
    )


def _interval(row: FidelityRow, whose: str) -> tuple[float, float]:
    """Of a factor; its value alone where the interval is not known."""
    value, low, high = (getattr(row, f"{whose}_factor{bound}") for bound in ("", "_low", "_high"))
    return (value if low is None else low), (value if high is None else high)


def _diagonal(axes: Any, low: float, high: float) -> None:
    """Where both factors are equal, and 10 % on either side of it."""
    ends = [low, high]
    axes.fill_between(ends, [0.9 * x for x in ends], [1.1 * x for x in ends], color="#d0d7de", alpha=0.6, linewidth=0)
    axes.plot(ends, ends, color=GREY, linewidth=0.8, linestyle="--")
    below = low * (high / low) ** 0.4
    axes.annotate("±10 %", (below, 0.9 * below), xytext=(5, -9), textcoords="offset points", color=GREY)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks([tick for tick in _TICKS if low <= tick <= high])
        axis.set_ticks([], minor=True)
        axis.set_major_formatter("×{x:g}")
    axes.spines[["top", "right"]].set_visible(False)


def _key(marker: str, colour: str, label: str) -> Any:
    """An entry of a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="", marker=marker, color=colour, label=label)
