"""Results of scenarios as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from statsnet.evaluation.scenario_compare import Headline, ScenarioStanding, ScenarioStandings, headline, is_search
from statsnet.evaluation.scenario_factors import scenario_factors, tail_notes
from statsnet.evaluation.scenario_rules import (
    PERCENTILES,
    Verdict,
    judge_all,
    percentile,
    percentile_name,
    queries_needed,
    rate_text,
    samples_per_s,
)
from statsnet.reporting.results import subject_name
from statsnet.reporting.tables import (
    MISSING,
    Report,
    bounds,
    environment_line,
    line,
    notes,
    pairs,
    percent,
    signed_percent,
    table,
    times,
)
from statsnet.reporting.validation import error_interval
from statsnet.signatures.canonical import canonical_csv
from statsnet.signatures.scenarios import ScenarioName, ScenarioResult, SuiteBeside, Trial
from statsnet.units import format_duration

SHOWN = (0.5, 0.9, 0.99, 0.999)
"""Percentiles that tables show."""

COLUMNS = ("name", "machine", "figure", "seconds", "factor", "factor_low", "factor_high", "verdict")


def scenario_report(result: ScenarioResult) -> Report:
    """The figure of a scenario, every run with its verdict, and what a percentile needs; of a suite, the proxy beside
    it and the factors of both under each setting."""
    rules, verdicts = result.rules, judge_all(result)
    rows = [("result", _result_line(result)), ("verdict", _verdict_line(result, verdicts))]
    also = f" and {rules.min_queries} queries" if rules.min_queries > 1 else ""
    rows.append(("each run", f"{format_duration(rules.min_time_s)}{also} at least"))
    if rules.latency_bound_s is not None:
        rows.append(("bound", f"{percentile_name(rules.percentile)} within {format_duration(rules.latency_bound_s)}"))
    if rules.samples_per_query > 1:
        rows.append(("a query", f"is {rules.samples_per_query} samples"))
    rows.append(("environment", environment_line(result.environment)))
    report: Report = [pairs(f"{subject_name(result.subject)}, {result.scenario}", rows)]
    title = "The suite's runs" if result.beside else "Runs"
    report.append(trials_table(title, result.scenario, result.trials, verdicts))
    if result.beside is not None:
        report += _beside(result, result.beside)
    if result.scenario != "offline":
        report.append(line(needs_line()))
    return [*report, *notes("INVALID:", _reasons(result, verdicts))]


def _result_line(result: ScenarioResult) -> str:
    found = headline(result)
    if isinstance(found, str):
        return f"none: {found}"
    if result.scenario == "offline":
        return f"{rate_text(1 / found.value.value)} samples/s ({found.what.partition(', ')[2]})"
    if is_search(result):
        above = (
            f", INVALID from {rate_text(1 / found.value.low)} on" if found.value.low else "; no INVALID rate was met"
        )
        return f"{rate_text(1 / found.value.value)} queries/s is the highest VALID rate{above}"
    return f"{found.what} {format_duration(found.value.value)}{_at_most(result)}"


def _at_most(result: ScenarioResult) -> str:
    """The bound that the generator itself reports as its result."""
    share = result.rules.percentile
    at_most = [bound for t in result.trials if (bound := percentile(t.latency_s, share).bound_s) is not None]
    return f" (at most {format_duration(max(at_most))}, with 99 % confidence)" if at_most else ""


def _verdict_line(result: ScenarioResult, verdicts: Sequence[Verdict]) -> str:
    valid = sum(verdict.is_valid for verdict in verdicts)
    if is_search(result) or result.scenario == "offline":
        return f"{valid} of {len(verdicts)} runs are VALID"
    return "VALID" if valid == len(verdicts) else f"INVALID: {len(verdicts) - valid} of {len(verdicts)} runs"


def trials_table(title: str, scenario: ScenarioName, trials: Sequence[Trial], verdicts: Sequence[Verdict]) -> Table:
    """A row for each run, by rate where there are rates."""
    words = ["VALID" if each.is_valid else "INVALID" for each in verdicts]
    rows = zip(trials, words, strict=True)
    if scenario == "offline":
        columns: Sequence[str] = ("instances", "threads", "samples", "time", "samples/s", "verdict")
        cells = [
            (
                str(t.instances),
                str(t.threads or MISSING),
                str(len(t.latency_s)),
                format_duration(max(each.completed_s for each in t.answers)),
                rate_text(samples_per_s(t)),
                word,
            )
            for t, word in rows
        ]
        return table(title, columns, cells, left=0, verdict=True)
    rate = ("queries/s",) if scenario == "server" else ()
    columns = (*rate, "queries", *(percentile_name(share) for share in SHOWN), "longest", "verdict")
    by_rate = [
        (
            *((rate_text(t.qps),) if t.qps is not None and rate else ()),
            str(len(t.latency_s)),
            *(format_duration(percentile(t.latency_s, share).latency_s) for share in SHOWN),
            format_duration(max(t.latency_s)),
            word,
        )
        for t, word in sorted(rows, key=lambda row: row[0].qps or 0.0)
    ]
    return table(title, columns, by_rate, left=0, verdict=True)


def needs_line() -> str:
    needs = ", ".join(f"{percentile_name(share)} {queries_needed(share)}" for share in PERCENTILES)
    return f"A percentile is shown where enough queries were answered for 99 % confidence, as MLPerf counts: {needs}."


def _reasons(result: ScenarioResult, verdicts: Sequence[Verdict]) -> list[str]:
    """Each reason once, with what to change. None of a search that found a rate: INVALID ones are what it looks for."""
    if is_search(result):
        found = headline(result)
        return [f"{found} (try: a longer --latency-bound)"] if isinstance(found, str) else []
    if result.beside is None:
        return _said("", verdicts)
    proxy = judge_all(result, result.beside.proxy)
    return [*_said("the suite: ", verdicts), *_said("the proxy: ", proxy)]


def _said(who: str, verdicts: Sequence[Verdict]) -> list[str]:
    reasons = dict.fromkeys(reason for verdict in verdicts for reason in verdict.reasons)
    return [f"{who}{reason.text} (try: {reason.hint})" for reason in reasons]


def _beside(result: ScenarioResult, beside: SuiteBeside) -> Report:
    report: Report = [
        trials_table("The proxy's runs", result.scenario, beside.proxy, judge_all(result, beside.proxy)),
        table(
            "Members",
            ("workload", "weight (share of time)", "share of queries"),
            ((m.name, percent(m.weight), percent(m.query_share)) for m in beside.members),
        ),
    ]
    rows, missing = scenario_factors(result)
    if beside.settings:
        shown = [
            (
                row.setting,
                row.figure,
                *map(times, (row.suite.value, row.proxy.value)),
                signed_percent(row.error.value),
                error_interval(row.error),
            )
            for row in rows
        ]
        columns = ("setting", "figure", "suite's factor", "proxy's factor", "error", "95 % interval")
        report.append(table("Does the proxy follow its suite in this scenario?", columns, shown, left=2))
    said = [*beside.notes, *missing, *tail_notes(result)]
    changed = [f"{under.name}: {text}" for under in beside.settings for text in under.differences]
    return [*report, *notes("the environments differ in:", changed), *notes("notes:", said)]


def scenario_standings_report(found: ScenarioStandings) -> Report:
    """Results of one scenario against the baseline."""
    rows = [
        (
            row.name,
            row.machine,
            row.headline.what if row.headline else MISSING,
            _figure(row.headline),
            times(row.factor.value) if row.factor else MISSING,
            bounds(row.factor),
            row.verdict,
        )
        for row in found.rows
    ]
    columns = ("result", "machine", "figure", "value", "factor", "interval", "verdict")
    made = table(f"{subject_name(found.subject)}, {found.scenario}", columns, rows, left=3, verdict=True)
    differing = [f"{row.name}: {text}" for row in found.rows for text in row.differences]
    return [made, *notes("the environments differ in:", differing)]


def _figure(found: Headline | None) -> str:
    return found.text if found else MISSING


def scenario_standings_csv(found: ScenarioStandings) -> str:
    """One line per result, with the columns COLUMNS; a figure that is not known is empty."""
    return canonical_csv(COLUMNS, map(_csv_row, found.rows))


def _csv_row(row: ScenarioStanding) -> list[object]:
    figure, factor = row.headline, row.factor
    cells = [row.name, row.machine, figure and figure.what, figure and figure.value.value]
    cells += [factor.value, factor.low, factor.high] if factor else [None] * 3
    return [*cells, row.verdict]
