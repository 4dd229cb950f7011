"""The table of a fidelity run: its rows, and how they are printed in Markdown."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.console import markdown_table, percent
from benchmarks.suites import mix_name, step_named
from statsnet.evaluation.factors import relative_error
from statsnet.signatures.intervals import Interval

GOALS = {20.0: (0.02, 0.07), 100.0: (0.03, 0.10)}
"""Compression -> the goals for the error's median and 95th percentile; for more, or the usual one, the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FidelityRow:
    """One way to stand for a mix under one setting. `way` is `statsnet` for the proxy. `wanted_compression` is None
    for the usual step. Bounds are those of 95 % intervals. `suite_noise`: by how much the suite's factor differs
    between odd and even rounds. `least_error`: the smallest error that interval and noise allow. Generated shares: of
    the time, in kernels that a compiler generated."""

    mix: str
    mode: str
    way: str
    wanted_compression: float | None
    setting: str
    step_latency_s: float | None = None
    compression: float | None = None
    suite_factor: float
    suite_factor_low: float | None = None
    suite_factor_high: float | None = None
    proxy_factor: float
    proxy_factor_low: float | None = None
    proxy_factor_high: float | None = None
    error: float
    error_low: float | None = None
    error_high: float | None = None
    suite_noise: float | None = None
    least_error: float
    suite_generated_share: float | None = None
    proxy_generated_share: float | None = None
    suite_rounds: int | None = None
    proxy_rounds: int | None = None


def fidelity_row(suite: Interval, proxy: Interval, *, suite_noise: float | None = None, **known: Any) -> FidelityRow:
    """From the two factors. `known` are further fields."""
    error = relative_error(suite, proxy)
    least = abs(error.value)
    if error.low is not None and error.high is not None:
        least = 0.0 if error.low <= 0.0 <= error.high else min(abs(error.low), abs(error.high))
    return FidelityRow(
        **columns("suite_factor", suite),
        **columns("proxy_factor", proxy),
        **columns("error", error),
        suite_noise=suite_noise,
        least_error=0.0 if suite_noise is not None and least <= 2 * suite_noise else least,
        **known,
    )


def columns(name: str, interval: Interval) -> dict[str, Any]:
    """An interval as three columns of a table."""
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}


def latest(tables: Iterable[Sequence[FidelityRow]]) -> list[FidelityRow]:
    """Rows of several tables, each mix, way and setting once: as the last table has it."""
    rows = {(row.mix, row.mode, row.wanted_compression, row.way, row.setting): row for table in tables for row in table}
    return list(rows.values())


def markdown(rows: Sequence[FidelityRow]) -> str:
    """The factors, way by way, then the summary."""
    ways = dict.fromkeys(row.way for row in rows)
    parts = [f"{way}\n\n{factors([row for row in rows if row.way == way])}" for way in ways]
    return "\n\n".join([*parts, summary(rows)])


def factors(rows: Sequence[FidelityRow]) -> str:
    """One line for each mix (and compression, if there are several), one column for each setting: the suite's factor,
    its stand-in's factor, the error ± half its 95 % interval, and in brackets the suite's noise in percent."""
    settings = list(dict.fromkeys(row.setting for row in rows))
    at = _compressions_named(rows)
    lines: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        lines[f"{mix_name(row.mix)}, {row.mode}{at[row.wanted_compression]}"][row.setting] = _cell(row)
    return markdown_table(
        ["", *settings], [[name, *(cells.get(s, "–") for s in settings)] for name, cells in lines.items()]
    )


def _compressions_named(rows: Sequence[FidelityRow]) -> dict[float | None, str]:
    """What the lines of each compression are marked with: nothing, if there is only one."""
    compressions = {row.wanted_compression for row in rows}
    return {c: step_named(c) if len(compressions) > 1 else "" for c in compressions}


def factors_cell(suite: float, proxy: float, error: float, low: float | None, high: float | None) -> str:
    """The suite's factor, its stand-in's, and the error ± half its 95 % interval, if that is known."""
    text = f"{suite:.2f}, {proxy:.2f}: **{percent(error)}**"
    return text if low is None or high is None else f"{text} ± {50 * math.log((1 + high) / (1 + low)):.1f}"


def _cell(row: FidelityRow) -> str:
    text = factors_cell(row.suite_factor, row.proxy_factor, row.error, row.error_low, row.error_high)
    if row.suite_noise is not None:
        text += f" ({100 * row.suite_noise:.1f})"
    if row.suite_generated_share is not None and row.proxy_generated_share is not None:
        text += f"; generated {row.suite_generated_share:.0%}, {row.proxy_generated_share:.0%}"
    return text


def summary(rows: Sequence[FidelityRow]) -> str:
    """For each mode and compression, a line for the first way over all its mixes. Then, for each set of mixes that
    other ways were measured on, a line for the first way and one for each of these."""
    header = ("", "errors", "median", "95th percentile", "mean", "worst", "reach the median's goal", "reach the other")
    lines = []
    at = _compressions_named(rows)
    for mode, compression in dict.fromkeys((row.mode, row.wanted_compression) for row in rows):
        by_way: dict[str, list[FidelityRow]] = defaultdict(list)
        for row in rows:
            if (row.mode, row.wanted_compression) == (mode, compression):
                by_way[row.way].append(row)
        first, *others = by_way.items()
        title = f"{mode}{at[compression]}"
        lines.append(_summary(f"{title}: {first[0]}", first[1]))
        for mixes in dict.fromkeys(frozenset(r.mix for r in theirs) for _, theirs in others):
            named = ", ".join(mix_name(mix) for mix in sorted(mixes))
            for way, theirs in (first, *(other for other in others if {r.mix for r in other[1]} == mixes)):
                lines.append(_summary(f"{title}, {named}: {way}", [row for row in theirs if row.mix in mixes]))
    return markdown_table(header, lines)


def _summary(name: str, rows: Sequence[FidelityRow]) -> list[str]:
    errors = np.array([abs(row.error) for row in rows])
    wanted = rows[0].wanted_compression or math.inf
    goals = next((goal for compression, goal in GOALS.items() if compression >= wanted), GOALS[max(GOALS)])
    figures = (np.median(errors), np.percentile(errors, 95), errors.mean(), errors.max())
    reached = [f"{sum(row.least_error <= goal for row in rows)} (of {goal:.0%})" for goal in goals]
    return [name, str(len(rows)), *(f"{100 * x:.1f} %" for x in figures), *reached]
