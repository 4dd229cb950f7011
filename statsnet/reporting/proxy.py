"""A proxy's spec and its fit as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.table import Table

from statsnet.reporting.tables import (
    MISSING,
    Report,
    environment_line,
    line,
    pairs,
    percent,
    points,
    signed_percent,
    signed_points,
    table,
    times,
)
from statsnet.signatures.comparison import Judged, judged
from statsnet.signatures.coverage import COVERAGE_BAR, bars_warning, coverage_warning, missed_warning, not_together
from statsnet.signatures.documents import COLLECTIVE_GROUP, Characteristic, Distances, Fit, FitSummary, ProxySpec
from statsnet.units import format_bytes, format_compression, format_duration, format_quantity, plural

GROUPS = {
    "category": "Time by operator category",
    "phase": "Time by phase",
    "kernel_class": "Time by kernel class",
    "intensity": "Time by arithmetic intensity",
}
SHOWN_FROM = 0.005
"""A share is left out of a table if it is below this in both target and proxy."""

LARGEST_STEP_ERROR = 0.1
"""Do not rely on a step that is further from its budget than this."""


def proxy_report(spec: ProxySpec, fit: Fit | None) -> Report:
    """What a proxy stands for, what it is made of and, where fit.json is there, how well it fits."""
    if spec.simulation is not None:
        from statsnet.reporting.simulation import layers_report  # imports torch

        return [*layers_report(spec, fit), mix_table(spec)]
    blocks = Counter(block.kind for tower in spec.towers for block in tower.blocks)
    made_of = ", ".join(f"{count} {kind}" for kind, count in blocks.most_common())
    rows = [
        ("id", spec.id),
        ("made for" if fit and fit.recorded else "made on", environment_line(spec.reference_environment)),
        ("budget", format_duration(spec.budget_s) if spec.budget_s else MISSING),
        ("network", f"{sum(blocks.values())} blocks in {len(spec.towers)} towers: {made_of}"),
    ]
    if spec.collectives:
        sent = Counter[str]()
        for c in spec.collectives:
            sent[c.operation] += c.count
        rows.append(("collectives", ", ".join(f"{count} {name}" for name, count in sent.most_common())))
    title = f"A proxy for {plural(len(spec.mix), 'workload')}, {spec.mode}, {spec.dtype}"
    report: Report = [pairs(title, rows), mix_table(spec)]
    return report + (fit_report(fit) if fit else [line("It has no fit.json: how well it fits is not known.")])


def mix_table(spec: ProxySpec) -> Table:
    """The pinned members."""
    return table(
        "The mix",
        ("workload", "preset", "weight", "step", "batch"),
        (
            (
                m.name,
                m.preset or MISSING,
                percent(m.weight),
                format_duration(m.latency_s),
                str(m.batch or MISSING),
            )
            for m in spec.mix
        ),
        left=2,
    )


def fit_report(fit: Fit) -> Report:
    """Asked against achieved, and how long proxy and suite take."""
    if fit.simulation is not None:
        from statsnet.reporting.simulation import predictions_report

        return [rate_table(fit.characteristics), *predictions_report(fit.simulation)]
    rows = fit.characteristics
    report: Report = [rate_table(rows)]
    for group, title, column in (
        ("counter", "Hardware counters", "counter"),
        (COLLECTIVE_GROUP, "Collectives, in several processes", ""),
    ):
        if shown := [row for row in rows if row.group == group]:
            report.append(_asked_table(title, column, shown))
    report += [share_table(rows, group) for group in ("category", "phase", "kernel_class")]
    report.append(distances_table(fit.summary))
    return [*report, *map(line, _remarks(fit))]


def step_beside_suite(step_s: float | None, suite_s: float | None, compression: float | None) -> str:
    """How long a proxy's step takes, and one of every workload."""
    return (
        f"One step of the proxy takes {format_duration(step_s)}, one step of every workload "
        f"{format_duration(suite_s)}: {format_compression(compression)}."
    )


def _remarks(fit: Fit) -> Iterator[str]:
    """How long proxy and suite take, and what weakens the fit."""
    summary = fit.summary
    if summary.step_latency_s and summary.suite_latency_s and summary.compression:
        later = " Both were measured when the proxy was made; a later `statsnet run` may show other times."
        both = step_beside_suite(summary.step_latency_s, summary.suite_latency_s, summary.compression)
        yield both if fit.recorded else both + later
    yield from weaknesses(fit)


def weaknesses(fit: Fit) -> Iterator[str]:
    """What weakens a fit."""
    summary = fit.summary
    if fit.effort == "quick":
        yield "Made with --effort quick: networks were measured in one process each, the finished one not again."
    for warning in (bars_warning(fit), coverage_warning(fit)):
        if warning:
            yield warning
    if abs(summary.step_latency_error or 0.0) > LARGEST_STEP_ERROR:
        error = summary.step_latency_error or 0.0
        missed = f"The step is {percent(abs(error))} {'longer' if error > 0 else 'shorter'} than its budget."
        why = (
            " A busy machine, or one that runs slower or faster than when the workloads were profiled, does that: "
            "synthesize again on an idle machine, or profile anew."
        )
        yield missed if fit.recorded else missed + why
    if beyond_bars := missed_warning(fit):
        yield beyond_bars
    if unknown := not_together(fit):
        yield unknown
    if recorded := fit.recorded:
        exact, model, roofline = (percent(recorded.get(kind, 0.0)) for kind in ("exact", "model", "roofline"))
        yield (
            "Made for a device that is not here: nothing was run there. Of its operators' time "
            f"{exact} was recorded with the same arguments, {model} is predicted from operators of other sizes, "
            f"{roofline} by a roofline."
        )
    elif replayed := fit.replayed_members:
        yield (
            "Timed by replay of their operators, since their models were not profiled here, which is weaker evidence: "
            f"{', '.join(replayed)}."
        )
    if throttled := fit.throttled:
        yield (
            "The GPU was slowed down, or held at its power cap, while the energy of these was measured, so that "
            f"their times and power are those of a hot machine: {', '.join(throttled)}."
        )
    if stored := fit.stored_members:
        yield f"Not timed again, so that their times are those of their signatures: {', '.join(stored)}."


def rate_table(characteristics: Sequence[Characteristic]) -> Table:
    """Rates, step shares and memory."""
    rows = [row for row in characteristics if row.group in ("rate", "time", "memory")]
    return _asked_table("Rates", "characteristic", rows)


def share_table(characteristics: Sequence[Characteristic], group: str) -> Table:
    """Shares of one group."""
    return _asked_table(GROUPS[group], "", shown_shares(characteristics, group))


def shown_shares(characteristics: Sequence[Characteristic], group: str) -> list[Characteristic]:
    """Those of one group, without very small ones."""
    of_group = (row for row in characteristics if row.group == group)
    return [row for row in of_group if max(row.target or 0.0, row.achieved or 0.0) >= SHOWN_FROM]


def _asked_table(title: str, column: str, rows: Sequence[Characteristic]) -> Table:
    return table(title, (column, "asked", "achieved", "error"), map(asked_and_achieved, rows))


def asked_and_achieved(row: Characteristic) -> tuple[str, ...]:
    """Its name, what was asked, what was achieved, and the error."""
    return row.name, quantity(row.target, row.unit), quantity(row.achieved, row.unit), _error(row)


def quantity(value: float | None, unit: str) -> str:
    """A characteristic's value in its unit."""
    if value is None:
        return MISSING
    if unit.startswith("share"):
        return percent(value)
    if unit == "s":
        return format_duration(value)
    return format_bytes(value) if unit == "B" else format_quantity(value, "/s" if unit == "1/s" else unit)


def _error(row: Characteristic) -> str:
    """Its error, in points of a share and else in percent."""
    if row.missed_by is None:
        return MISSING
    return signed_points(row.missed_by) if row.is_share else signed_percent(row.missed_by)


def distances_table(summary: Distances) -> Table:
    """How far the proxy is from what was asked, beside the bars of a good fit."""
    rows = [judged_row(each) for each in judged(summary)]
    distance = summary.intensity_earth_movers_distance_log2
    others = [
        ("phases", points(summary.phase_total_variation)),
        ("intensity", MISSING if distance is None else f"{distance:.2f} powers of two"),
        ("launches", times(summary.launches_per_s_ratio)),
        ("time in operators with a formula", percent(summary.formula_coverage_target)),
    ]
    if isinstance(summary, FitSummary):
        others.append(("kernel classes with a candidate", percent(summary.candidate_coverage)))
    rows += [(name, shown, MISSING, MISSING) for name, shown in others]
    if isinstance(summary, FitSummary):
        covered = summary.proxy_coverage
        is_met = MISSING if covered is None else _yes(covered >= COVERAGE_BAR)
        rows.append(("kernel classes in the proxy", percent(covered), f"at least {COVERAGE_BAR:.0%}", is_met))
    return table("Distances", ("", "distance", "bar", "met"), rows)


def judged_row(each: Judged) -> tuple[str, str, str, str]:
    """Its name, its distance, its bar, and whether that is met."""
    bar = f"at most {each.bar:.0%}" if each.is_rate else f"at most {100 * each.bar:g} points"
    return each.name, distance_of(each), bar, MISSING if each.distance is None else _yes(not each.is_missed)


def distance_of(each: Judged) -> str:
    return signed_percent(each.distance) if each.is_rate else points(each.distance)


def _yes(is_met: bool) -> str:
    return "yes" if is_met else "no"
