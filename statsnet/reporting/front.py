"""A picture of a search: how near each design came, against how long its step takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from statsnet.reporting.pictures import figure


def front_svg(search: Mapping[str, Any]) -> str:
    """SVG of a search's record (search.json). The same record gives the same bytes. Raises ImportError where matplotlib
    is not installed."""
    tried = {row["number"]: (1e3 * row["step_latency_s"], row["error"]) for row in search["tried"]}
    front = sorted(tried[number] for number in search["front"])
    with figure(6.4, 4.0) as (made, text):
        axes = made.add_subplot()
        times, errors = zip(*tried.values(), strict=True)
        axes.scatter(times, errors, s=18, color="0.6", label="tried", zorder=2)
        axes.step(*zip(*front, strict=True), where="post", color="tab:blue", label="Pareto front", zorder=3)
        for name, marker in (("usual", "s"), ("chosen", "*")):
            if search[name] is not None:
                x, y = tried[search[name]]
                axes.scatter([x], [y], s=90, marker=marker, label=name, zorder=4)
        axes.axvline(1e3 * search["budget_s"], color="0.3", linestyle=":", label="budget", zorder=1)
        axes.set_xlabel("step time, ms")
        axes.set_ylabel("measured error of the fit (weighted L1)")
        axes.set_ylim(0.0, 1.1 * max(errors))
        axes.legend(frameon=False)
    return text.getvalue()
