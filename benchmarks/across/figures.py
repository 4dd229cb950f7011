"""The table of `across_gpus.py`, and what it says of each contestant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.across.contestants import SELECTED
from benchmarks.console import markdown_table
from statsnet.reporting.pictures import COLOURS, GREY, figure


@dataclass(frozen=True, slots=True, kw_only=True)
class AcrossRow:
    """One contestant on one pair of devices. `step_factor` is the factor of measured whole steps where they are known;
    `exact_share` is the share of the suite's time on `device_b` that its table gives; the rest is modelled. `proxy_s`
    is the proxy's time on `device_a`."""

    suite: int
    name: str
    contestant: str
    device_a: str
    device_b: str
    suite_factor: float
    step_factor: float | None
    proxy_factor: float
    proxy_s: float | None
    operators: int | None
    exact_share: float

    @property
    def error(self) -> float:
        return abs(self.proxy_factor / self.suite_factor - 1.0)

    @property
    def step_error(self) -> float | None:
        return None if self.step_factor is None else abs(self.proxy_factor / self.step_factor - 1.0)

    @property
    def floor(self) -> float | None:
        """All operators against the steps."""
        return None if self.step_factor is None else abs(self.suite_factor / self.step_factor - 1.0)


def summary(rows: Sequence[AcrossRow]) -> str:
    """A table of contestants for each suite."""
    header = ("contestant", "mean error", "worst error", "time", "operators", "against whole steps, mean / worst")
    parts = []
    for name in dict.fromkeys(r.name for r in rows):
        own = [r for r in rows if r.name == name]
        first = [r for r in own if r.contestant == SELECTED]
        devices = sorted({d for r in own for d in (r.device_a, r.device_b)})
        exact = float(np.mean([r.exact_share for r in first]))
        contestants = dict.fromkeys(r.contestant for r in own)
        lines = [_line(contestant, [r for r in own if r.contestant == contestant]) for contestant in contestants]
        floors = [f for r in first if (f := r.floor) is not None]
        if floors:
            lines.append(["all operators (the floor)", "0", "0", "–", "–", _two(floors)])
        title = (
            f"Suite {own[0].suite}: {name}. {len(first)} pairs of {len(devices)} devices; "
            f"{exact:.0%} of the time on the second device is exact, {1 - exact:.0%} modelled."
        )
        parts.append(f"{title}\n\n{markdown_table(header, lines)}\n")
    return "\n".join(parts)


def _line(contestant: str, rows: Sequence[AcrossRow]) -> list[str]:
    errors = [r.error for r in rows]
    times = [r.proxy_s for r in rows if r.proxy_s is not None]
    counts = [r.operators for r in rows if r.operators is not None]
    steps = [e for r in rows if (e := r.step_error) is not None]
    time = f"{1e3 * min(times):.0f}–{1e3 * max(times):.0f} ms" if times else "–"
    operators = f"{np.mean(counts):.0f}" if counts else "–"
    against_steps = _two(steps) if steps else "–"
    return [contestant, f"{np.mean(errors):.2%}", f"{max(errors):.2%}", time, operators, against_steps]


def _two(errors: Sequence[float]) -> str:
    return f"{np.mean(errors):.2%} / {max(errors):.2%}"


def last_line(rows: Sequence[AcrossRow]) -> str:
    """Mean and worst error of the selected operators, for each suite."""
    parts = []
    for name in dict.fromkeys(r.name for r in rows):
        own = [r for r in rows if r.name == name and r.contestant == SELECTED]
        text = f"suite {own[0].suite} ({name}): mean {np.mean([r.error for r in own]):.2%}, "
        text += f"worst {max(r.error for r in own):.2%}"
        steps = [(e, f) for r in own if (e := r.step_error) is not None and (f := r.floor) is not None]
        if steps:
            mean, floor = np.mean([e for e, _ in steps]), np.mean([f for _, f in steps])
            text += f", whole steps mean {mean:.2%}, worst {max(e for e, _ in steps):.2%} (floor {floor:.2%}, "
            text += f"{max(f for _, f in steps):.2%})"
        parts.append(text)
    return "; ".join(parts)


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
