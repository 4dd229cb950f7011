"""Many results against a baseline, as tables and as CSV."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from statsnet.evaluation.compare import Comparison
from statsnet.evaluation.standings import Standing, Standings
from statsnet.reporting.results import subject_title
from statsnet.reporting.tables import MISSING, Report, bounds, notes, percent, table, times
from statsnet.signatures.canonical import canonical_csv
from statsnet.signatures.intervals import Interval
from statsnet.units import format_duration

COLUMNS = (
    "name", "subject_type", "subject_id", "mode", "machine", "setting", "step_latency_s", "step_latency_s_low",
    "step_latency_s_high", "factor", "factor_low", "factor_high", "significant", "energy_j_per_step", "energy_factor",
    "cost_per_step", "cost_factor", "cost_factor_low", "cost_factor_high", "verdict",
)  # fmt: skip


def standings_report(found: Standings) -> Report:
    """A table for each subject; machines against settings where there are several of both; the geometric mean over
    several subjects; members of a suite; then what weakens the comparisons."""
    report: Report = []
    for subject in dict.fromkeys(row.subject for row in found.rows):
        rows = [row for row in found.rows if row.subject == subject]
        report += [_result_table(subject_title(subject), rows), *_machines_and_settings(rows)]
    if found.means:
        report.append(
            table(
                "Geometric mean of the factors",
                ("machine", "setting", "of", "factor", "95 % interval", "verdict"),
                (
                    (m.machine, m.setting, str(m.subjects), times(m.factor.value), bounds(m.factor), m.verdict)
                    for m in found.means
                ),
                left=2,
            )
        )
    names = [row.name for row in found.rows]
    compared = [(row.name, row.comparison) for row in found.rows if row.comparison is not None]
    for name, comparison in compared:
        if comparison.members:
            report.append(_member_table(f"Members of {name}", comparison))
    report += notes("the environments differ in:", _by_result([(name, c.differences) for name, c in compared], names))
    return [*report, *notes("warnings:", _by_result([(name, c.warnings) for name, c in compared], names))]


def standings_csv(found: Standings) -> str:
    """One line per result, with the columns COLUMNS; a figure that is not known is empty."""
    return canonical_csv(COLUMNS, standings_rows(found))


def standings_rows(found: Standings) -> list[list[object]]:
    """A row for each result, in the order of COLUMNS; None is not known."""
    return [_csv_row(row) for row in found.rows]


def _result_table(title: str, rows: Sequence[Standing]) -> Table:
    has_energy = any(row.energy_j_per_step is not None for row in rows)
    has_cost = any((row.cost_per_step, row.cost_factor) != (None, None) for row in rows)
    columns = ["result", "machine", "setting", "step time", "95 % interval", "factor", "95 % interval"]
    columns += (
        ["energy per step", "energy factor"] * has_energy
        + ["cost per million steps", "cost factor"] * has_cost
        + ["verdict"]
    )
    shown = []
    for row in rows:
        cells = [row.name, row.machine, row.setting, *_step(row.step), *_factor(row)]
        if has_energy:
            cells += [_joules(row.energy_j_per_step), times(row.energy_factor)]
        if has_cost:
            cells += [_money(row.cost_per_step), _with_bounds(row.cost_factor)]
        shown.append([*cells, row.verdict])
    return table(title, columns, shown, left=3, verdict=True)


def _step(step: Interval | None) -> tuple[str, str]:
    if step is None:
        return MISSING, MISSING
    if step.low is None or step.high is None:
        return format_duration(step.value), MISSING
    return format_duration(step.value), f"{format_duration(step.low)} to {format_duration(step.high)}"


def _factor(row: Standing) -> tuple[str, str]:
    if row.is_baseline:
        return times(1.0), MISSING
    return (MISSING, MISSING) if row.factor is None else (times(row.factor.value), bounds(row.factor))


def _joules(energy_j: float | None) -> str:
    return MISSING if energy_j is None else f"{energy_j:.3g} J"


def _money(per_step: float | None) -> str:
    return MISSING if per_step is None else f"{1e6 * per_step:.4g}"


def _with_bounds(factor: Interval | None) -> str:
    if factor is None:
        return MISSING
    return times(factor.value) if factor.low is None else f"{times(factor.value)} ({bounds(factor)})"


def _machines_and_settings(rows: Sequence[Standing]) -> Report:
    """Factors as a table of machines (down) and settings (across), where there are several of both."""
    machines, settings = (list(dict.fromkeys(getattr(row, name) for row in rows)) for name in ("machine", "setting"))
    if len(machines) < 2 or len(settings) < 2:
        return []
    cells: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        shown = times(1.0) if row.is_baseline else _with_bounds(row.factor)
        cells.setdefault((row.machine, row.setting), []).append(shown)
    return [
        table(
            "Factors: machines and settings",
            ("machine", *settings),
            ((m, *(", ".join(cells.get((m, s), [MISSING])) for s in settings)) for m in machines),
        )
    ]


def _member_table(title: str, comparison: Comparison) -> Table:
    return table(
        title,
        ("workload", "evidence", "weight", "time factor", "95 % interval"),
        ((m.name, m.evidence, percent(m.weight), times(m.factor.value), bounds(m.factor)) for m in comparison.members),
        left=2,
    )


def _by_result(texts: Sequence[tuple[str, Sequence[str]]], names: Sequence[str]) -> list[str]:
    """Each text once; if there are several results, after the name of the one that it is of."""
    is_plain, begins = len(texts) < 2, tuple(f"{name}{end}" for name in names for end in (":", ", "))
    named = (
        text if is_plain or text.startswith(begins) else f"{name}: {text}" for name, all_of in texts for text in all_of
    )
    return list(dict.fromkeys(named))


def _csv_row(row: Standing) -> list[object]:
    step, cost, comparison = row.step, row.cost_factor, row.comparison
    factor = Interval(value=1.0, low=None, high=None) if row.is_baseline else row.factor
    return [
        row.name, row.subject.type, row.subject.id, row.subject.mode, row.machine, row.setting,
        *_three(step), *_three(factor), comparison and comparison.significant, row.energy_j_per_step, row.energy_factor,
        row.cost_per_step, *_three(cost), row.verdict,
    ]  # fmt: skip


def _three(interval: Interval | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if interval is None else (interval.value, interval.low, interval.high)
