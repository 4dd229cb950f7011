"""Results as pictures: samples by process, drift, factors with intervals; of a validation, suite against proxy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from rich.table import Table

from statsnet.evaluation.speeds import speeds_of
from statsnet.evaluation.standings import Standings
from statsnet.reporting.html.document import Section
from statsnet.reporting.html.markup import grid
from statsnet.reporting.html.pictures import Picture, Series, cloud, intervals, safe
from statsnet.reporting.pictures import colour_of
from statsnet.reporting.standings import standings_report
from statsnet.reporting.tables import Report, bounds, environment_line, notes, signed_percent, table, times
from statsnet.reporting.validation import validation_report
from statsnet.signatures.intervals import Interval, process_median_s
from statsnet.signatures.results import Fidelity, Result
from statsnet.signatures.timing import Timing
from statsnet.units import format_duration

MOST_SAMPLES = 300
"""Points of one process in a picture; if it has more samples, their quantiles are drawn."""

MOST_GROUPS = 60
"""Successive steps are shown as so many medians."""

MOST_PROCESSES = 40


def result_section(name: str, result: Result, command: str = "") -> Section:
    where = environment_line(result.environment)
    pictures: list[Picture] = []
    tables: Report = validation_report(result)
    if result.members is None:
        processes = result.of_subject
        pictures += [distribution(processes, where), _in_order(processes, where)]
        speeds = speeds_of(processes)
        said = [note.text for note in speeds.notes] + ([speeds.clock] if speeds.clock else [])
        tables = [*tables, *notes("noticed:", said)]
    elif result.proxy is not None:
        pictures.append(distribution(result.proxy.processes, f"the proxy beside its suite, {where}"))
    if result.validation is not None and result.validation.fidelity is not None:
        pictures += _fidelity(result.validation.fidelity, where)
    title = f"{name}: a result, {result.subject.mode}"
    return Section(title=title, pictures=pictures, tables=tables, command=command, is_open=True)


def comparison_section(found: Standings, command: str) -> Section:
    """Several results of one subject or more: factors against the baseline."""
    rows = [row for row in found.rows if row.factor is not None]
    lines = [(row.name, times(row.factor.value), bounds(row.factor), row.verdict) for row in rows if row.factor]
    shown = [f"{row.name}: {row.verdict}\n{row.machine}, {row.setting}" for row in rows]
    series = Series.of("factor", [row.factor for row in rows if row.factor], shown)
    baseline = ", ".join(row.name for row in found.rows if row.is_baseline)
    made = table("", ("result", "factor", "95 % interval", "verdict"), lines, verdict=True)
    picture = intervals(
        "Factors with their 95 % intervals",
        f"Step time over that of {baseline}: below 1 is faster.",
        [row.name for row in rows],
        [series],
        made,
        axis="time over the baseline's",
    )
    tables = standings_report(found)
    return Section(title="Results compared", pictures=[picture], tables=tables, command=command, is_open=True)


def thinned(values: Sequence[float], most: int) -> list[float]:
    """At most so many values with the same distribution: quantiles of the sorted values."""
    ordered = sorted(values)
    if len(ordered) <= most:
        return ordered
    return [ordered[math.floor((number + 0.5) * len(ordered) / most)] for number in range(most)]


def suite_and_proxy(
    title: str,
    note: str,
    names: Sequence[str],
    factors: Sequence[tuple[Interval, Interval]],
    where: str,
    table: Table,
    *,
    axis: str,
) -> Picture:
    """The factors of a suite and of its proxy under each setting."""
    sides = zip(("suite", "proxy"), zip(*factors, strict=True), strict=True)
    series = [
        Series.of(
            side,
            found,
            [f"{n}: {side} {times(f.value)} ({bounds(f)})\n{where}" for n, f in zip(names, found, strict=True)],
        )
        for side, found in sides
    ]
    return intervals(title, note, names, series, table, axis=axis)


def distribution(processes: Sequence[Timing], where: str) -> Picture:
    """A violin of the samples of each process, with its median."""
    shown = processes[:MOST_PROCESSES]
    traces = []
    for number, process in enumerate(shown, 1):
        samples = thinned(process.latency_s, MOST_SAMPLES)
        points = "all" if len(samples) <= 100 else "outliers"
        words = (
            f"process {number}: median {format_duration(median(process.latency_s))} of {len(process.latency_s)} steps"
        )
        traces.append(
            {
                **(
                    {"type": "violin", "points": points, "meanline": {"visible": True}}
                    if len(samples) > 5
                    else {"type": "box", "boxpoints": points}
                ),
                "name": safe(f"{number}"),
                "y": [1e3 * time for time in samples],
                "line": {"color": colour_of(number - 1)},
                "hovertemplate": f"%{{y:.4g}} ms<br>{safe(words)}<br>{safe(where)}<extra></extra>",
            }
        )
    rows = [
        (
            str(number),
            str(len(p.latency_s)),
            format_duration(min(p.latency_s)),
            format_duration(median(p.latency_s)),
            format_duration(max(p.latency_s)),
        )
        for number, p in enumerate(processes, 1)
    ]
    more = f" Of {len(processes)} processes, {MOST_PROCESSES} are drawn." if len(processes) > MOST_PROCESSES else ""
    return Picture(
        title="Samples of each process",
        note=f"Step times in ms, {where}. One process is one sample of a comparison.{more}",
        table=grid(table("", ("process", "steps", "least", "median", "most"), rows)),
        traces=traces,
        layout={
            "xaxis": {"title": {"text": "process"}, "type": "category"},
            "yaxis": {"title": {"text": "ms"}},
            "showlegend": False,
        },
        height_px=380,
    )


def _in_order(processes: Sequence[Timing], where: str) -> Picture:
    """Step time in the order of the steps: drift and jumps show here."""
    series, rows = [], []
    for number, process in enumerate(processes[:MOST_PROCESSES], 1):
        groups = _groups(process.latency_s)
        x = [100 * (place + 0.5) / len(groups) for place in range(len(groups))]
        y = [1e3 * median(group) for group in groups]
        words = [
            f"process {number}: {value:.4g} ms, median of {len(g)} steps\n{where}"
            for value, g in zip(y, groups, strict=True)
        ]
        series.append(Series(name=f"process {number}", x=x, y=y, shown=words, sizes=[6] * len(x)))
        third = max(1, len(groups) // 3)
        first, last = (median([median(g) for g in part]) for part in (groups[:third], groups[-third:]))
        rows.append(
            (str(number), format_duration(process_median_s(process)), format_duration(first), format_duration(last))
        )
    made = table("", ("process", "median", "first third", "last third"), rows)
    note = f"Medians of successive steps, {where}. A slope is drift, two levels are two speeds."
    return cloud("Steps in their order", note, series, made, x="% of the steps", y="ms", log=False)


def _groups(samples: Sequence[float]) -> list[Sequence[float]]:
    size = max(1, -(-len(samples) // MOST_GROUPS))
    return [samples[begin : begin + size] for begin in range(0, len(samples), size)]


def _fidelity(fidelity: Fidelity, where: str) -> list[Picture]:
    """Under each setting: the suite's factor, and the proxy's."""
    settings = fidelity.settings
    if not settings:
        return []
    rows = [
        (
            s.name,
            times(s.suite_factor.value),
            times(s.proxy_factor.value),
            signed_percent(s.error.value),
        )
        for s in settings
    ]
    return [
        suite_and_proxy(
            "Does the proxy follow its suite?",
            f"Step time under a setting over that of the baseline, with 95 % intervals. {where}.",
            [s.name for s in settings],
            [(s.suite_factor, s.proxy_factor) for s in settings],
            where,
            table("", ("setting", "suite's factor", "proxy's factor", "error"), rows),
            axis="time over the baseline's",
        )
    ]
