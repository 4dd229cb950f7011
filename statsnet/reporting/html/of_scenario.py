"""Scenarios as pictures: latency against load, throughput over instances and threads, suite against proxy."""

from __future__ import annotations

from collections.abc import Sequence

from statsnet.evaluation.scenario_compare import ScenarioStandings
from statsnet.evaluation.scenario_factors import ScenarioFactors, scenario_factors, tail_notes
from statsnet.evaluation.scenario_rules import judge_all, percentile, percentile_name, rate_text, samples_per_s
from statsnet.reporting.html.document import Section
from statsnet.reporting.html.of_result import distribution, suite_and_proxy
from statsnet.reporting.html.pictures import Picture, Series, bars, cloud, line_trace
from statsnet.reporting.scenarios import SHOWN, scenario_report, scenario_standings_report, trials_table
from statsnet.reporting.tables import environment_line, signed_percent, table, times
from statsnet.signatures.scenarios import ScenarioResult
from statsnet.signatures.timing import Timing
from statsnet.units import format_duration


def scenario_section(name: str, result: ScenarioResult, command: str = "") -> Section:
    where = environment_line(result.environment)
    if result.scenario == "server":
        pictures = [_latency_against_load(result, where)]
    elif result.scenario == "offline":
        pictures = [_throughput(result, where)]
    else:
        pictures = [distribution([Timing(latency_s=trial.latency_s) for trial in result.trials], where)]
    rows, _ = scenario_factors(result)
    pictures += [_factors(rows, where, tail_notes(result))] if rows else []
    title = f"{name}: the {result.scenario} scenario"
    return Section(title=title, pictures=pictures, tables=scenario_report(result), command=command, is_open=True)


def scenario_comparison_section(found: ScenarioStandings, command: str) -> Section:
    """Several results of one scenario against the baseline, as a table."""
    title = f"The {found.scenario} scenario compared"
    return Section(title=title, pictures=[], tables=scenario_standings_report(found), command=command, is_open=True)


def _latency_against_load(result: ScenarioResult, where: str) -> Picture:
    """A point for each run and percentile, in ms over queries per second; the bound as a line."""
    verdicts = judge_all(result)
    runs = sorted(zip(result.trials, verdicts, strict=True), key=lambda run: run[0].qps or 0.0)
    series, lines = [], []
    for number, share in enumerate(SHOWN[:-1]):  # p99.9 needs more queries than most runs hold
        known = [
            (trial.qps, latency_s, verdict)
            for trial, verdict in runs
            if trial.qps is not None and (latency_s := percentile(trial.latency_s, share).latency_s) is not None
        ]
        word = percentile_name(share)
        x, y = [qps for qps, _, _ in known], [1e3 * latency_s for _, latency_s, _ in known]
        shown = [
            f"{word} {format_duration(latency_s)} at {rate_text(qps)} queries/s: {verdict}\n{where}"
            for qps, latency_s, verdict in known
        ]
        series.append(Series(name=word, x=x, y=y, shown=shown, sizes=[11 if v.is_valid else 7 for _, _, v in known]))
        lines.append({**line_trace(word, x, y, colour=number), "showlegend": False})
    note = f"Latency over the rate of queries, {where}. Large points are VALID runs, small ones INVALID."
    rates = [trial.qps for trial in result.trials if trial.qps is not None]
    if (bound_s := result.rules.latency_bound_s) is not None:
        span = [min(rates), max(rates)]
        lines.append(line_trace("bound", span, [1e3 * bound_s] * 2, dash="dot"))
        note += f" The dotted line is the bound of {format_duration(bound_s)}, which p99 must keep."
    made = trials_table("", result.scenario, result.trials, verdicts)
    return cloud("Latency against load", note, series, made, x="queries per second", y="ms", log=False, lines=lines)


def _throughput(result: ScenarioResult, where: str) -> Picture:
    names = [f"{trial.instances} × {trial.threads or 'all'}" for trial in result.trials]
    rates = [samples_per_s(trial) for trial in result.trials]
    shown = [
        f"{trial.instances} instances of {trial.threads or 'all'} threads: {rate_text(rate)} samples/s\n{where}"
        for trial, rate in zip(result.trials, rates, strict=True)
    ]
    return bars(
        "Throughput over instances × threads",
        f"Samples per second of all instances together, {where}.",
        names,
        [Series(name="samples/s", x=rates, shown=shown)],
        trials_table("", result.scenario, result.trials, judge_all(result)),
        axis="samples per second",
    )


def _factors(rows: Sequence[ScenarioFactors], where: str, tails: Sequence[str]) -> Picture:
    """Under each setting: the suite's factor of a percentile, and the proxy's."""
    cells = [
        (row.setting, row.figure, times(row.suite.value), times(row.proxy.value), signed_percent(row.error.value))
        for row in rows
    ]
    note = f"Latency under a setting over that of the baseline, with 95 % intervals. {where}."
    return suite_and_proxy(
        "Does the proxy follow its suite in this scenario?",
        " ".join([note, *(f"{text[:1].upper()}{text[1:]}." for text in tails)]),
        [f"{row.setting}, {row.figure}" for row in rows],
        [(row.suite, row.proxy) for row in rows],
        where,
        table("", ("setting", "figure", "suite's factor", "proxy's factor", "error"), cells, left=2),
        axis="latency over the baseline's",
    )
