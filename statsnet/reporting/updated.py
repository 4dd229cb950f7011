"""What changed when a proxy was made anew, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from statsnet.evaluation.cover import Coverage
from statsnet.evaluation.updated import Added, Updated
from statsnet.reporting.proxy import weaknesses
from statsnet.reporting.tables import MISSING, Report, line, notes, percent, points, signed_percent, table, times
from statsnet.signatures.documents import FitSummary
from statsnet.units import format_compression, format_duration

SHOWN = 20
"""Most members that are listed, those whose weights changed most."""


def updated_report(found: Updated) -> Report:
    """Members and weights, the fit before and after, and how well each stands for what was added."""
    report: Report = [_member_table(found), _fit_table(found)]
    if moved := found.mix_moved:
        report.append(
            line(
                f"What is asked of the new proxy is {points(moved['category'])} (categories) and "
                f"{points(moved['kernel_class'])} (kernel classes) from what was asked of the old one."
            )
        )
    if found.added:
        report.append(_added_table(found.added))
    report += map(line, weaknesses(found.new_fit))
    return report + notes("the two were made in environments that differ in:", found.differences)


def _member_table(found: Updated) -> Table:
    members = found.members
    rows = [(m.name, percent(m.before), percent(m.after)) for m in members[:SHOWN]]
    if some := members[SHOWN:]:
        before, after = sum(m.before or 0.0 for m in some), sum(m.after or 0.0 for m in some)
        rows.append((f"{len(some)} others", percent(before), percent(after)))
    return table("The mix", ("workload", "weight before", "after"), rows)


def _fit_table(found: Updated) -> Table:
    before = _fit_cells(found.old_fit.summary) if found.old_fit else {}
    after = _fit_cells(found.new_fit.summary)
    rows = [(name, before.get(name, MISSING), cell) for name, cell in after.items()]
    return table("The fit: distances from what was asked, and the step", ("", "before", "after"), rows)


def _fit_cells(summary: FitSummary) -> dict[str, str]:
    distance = summary.intensity_earth_movers_distance_log2
    return {
        "categories": points(summary.category_total_variation),
        "kernel classes": points(summary.kernel_class_total_variation),
        "phases": points(summary.phase_total_variation),
        "intensity": MISSING if distance is None else f"{distance:.2f} powers of two",
        "FLOP/s": signed_percent(summary.flops_per_s_error),
        "bytes/s": signed_percent(summary.bytes_per_s_error),
        "launches": times(summary.launches_per_s_ratio),
        "kernel classes in the proxy": percent(summary.proxy_coverage),
        "step": format_duration(summary.step_latency_s),
        "beside the suite": format_compression(summary.compression),
    }


def _added_table(added: Sequence[Added]) -> Table:
    rows = [
        (each.name, proxy, *_distances(found))
        for each in added
        for proxy, found in (("before", each.before), ("after", each.after))
    ]
    columns = ("workload", "proxy", "categories apart", "kernel classes apart", "not stood for")
    return table("How far the proxy is from what was added", columns, rows, left=2)


def _distances(found: Coverage | None) -> tuple[str, str, str]:
    if found is None:
        return MISSING, MISSING, MISSING
    return points(found.distances["category"]), points(found.distances["kernel_class"]), percent(found.missing_share)
