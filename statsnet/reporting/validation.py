"""A validation as tables: fit measured again, and fidelity under other settings."""

from __future__ import annotations

from statsnet.reporting.proxy import GROUPS, SHOWN_FROM, distance_of, judged_row, quantity, step_beside_suite
from statsnet.reporting.results import result_report
from statsnet.reporting.tables import (
    MISSING,
    Report,
    line,
    notes,
    percent,
    points,
    signed_percent,
    signed_points,
    table,
)
from statsnet.signatures.comparison import judged
from statsnet.signatures.documents import Distances
from statsnet.signatures.intervals import Interval
from statsnet.signatures.results import CharacteristicAgain, Fidelity, FitAgain, Moved, Result

TOO_WIDE = 10
"""An interval that reaches this many times the value says nothing."""


def validation_report(result: Result) -> Report:
    """A result with everything that `validate` found; the result alone where it was run without."""
    report = result_report(result)
    if (validation := result.validation) is None:
        return report
    if validation.moved:
        report += _moved(validation.moved)
    if validation.fit:
        report += _fit(validation.fit)
    if validation.fidelity:
        report += _fidelity(validation.fidelity)
    return [*report, *notes("notes:", validation.notes)]


def _moved(moved: Moved) -> Report:
    factors = [member.value for member in moved.members]
    columns = ("suite's factor", "proxy's factor", "error", "95 % interval", "single workloads")
    row = (
        factor_text(moved.suite_factor),
        factor_text(moved.proxy_factor),
        signed_percent(moved.error.value),
        error_interval(moved.error),
        f"{min(factors):.3g}× to {max(factors):.3g}×",
    )
    return [
        table("Fidelity: time here against that where the proxy was made", columns, [row]),
        line("The interval is that of the times here; those where it was made are taken as exact."),
    ]


def _fit(fit: FitAgain) -> Report:
    report: Report = []
    for title, groups in (
        ("Rates, measured again", ("rate", "time", "memory")),
        *((title, (group,)) for group, title in GROUPS.items() if group != "intensity"),
    ):
        rows = [row for row in fit.characteristics if row.group in groups and _is_shown(row)]
        report.append(
            table(
                title,
                ("", "recorded", "asked now", "achieved", "error", "noise"),
                ([row.name, *_cells(row)] for row in rows),
            )
        )
    now, noise = fit.summary, fit.noise or Distances()
    distances = [(*judged_row(found), distance_of(own)) for found, own in zip(judged(now), judged(noise), strict=True)]
    distances.append(
        ("phases", points(now.phase_total_variation), MISSING, MISSING, points(noise.phase_total_variation))
    )
    columns = ("", "distance", "bar", "met", "suite's noise")
    both = step_beside_suite(fit.proxy_latency_s, fit.suite_latency_s, fit.compression)
    return [*report, table("Distances", columns, distances), line(both)]


def _is_shown(row: CharacteristicAgain) -> bool:
    if row.group not in GROUPS:
        return True
    return max(row.target or 0.0, row.achieved or 0.0) >= SHOWN_FROM


def _cells(row: CharacteristicAgain) -> list[str]:
    unit = row.unit
    values = [quantity(value, unit) for value in (row.recorded, row.target, row.achieved)]
    if not unit.startswith("share"):
        return [*values, signed_percent(row.error), percent(row.noise)]
    return [*values, signed_points(row.error), points(row.noise)]


def _fidelity(fidelity: Fidelity) -> Report:
    rows = [
        (
            row.name,
            factor_text(row.suite_factor),
            factor_text(row.proxy_factor),
            signed_percent(row.error.value),
            error_interval(row.error),
            percent(row.suite_noise),
        )
        for row in fidelity.settings
    ]
    columns = ("setting", "suite's factor", "proxy's factor", "error", "95 % interval", "suite's noise")
    report: Report = [table("Fidelity: time under a setting against the baseline", columns, rows)]
    if (noise := fidelity.baseline_noise) is not None:
        report.append(line(f"Between rounds the suite's own time varied by {percent(noise)} at the baseline."))
    return [*report, line(_certainty(fidelity.rounds, fidelity.widest_half_width))]


def _certainty(rounds: int, half_width: float | None) -> str:
    if half_width is None:
        return "What was measured does not tell how certain the factors are: raise --rounds."
    times = "1 round" if rounds == 1 else f"{rounds} rounds"
    return f"{times}: the least certain factor is known to ±{percent(half_width)}."


def factor_text(interval: Interval) -> str:
    value, low, high = interval.value, interval.low, interval.high
    if low is None or high is None or high > TOO_WIDE * value:
        return f"{value:.3g}×"
    return f"{value:.3g}× ({low:.3g} to {high:.3g})"


def error_interval(interval: Interval) -> str:
    """Bounds of a relative error; one that is too wide says nothing."""
    if interval.low is None or interval.high is None:
        return MISSING
    if interval.high > TOO_WIDE:
        return "too wide: raise --rounds"
    return f"{signed_percent(interval.low)} to {signed_percent(interval.high)}"
