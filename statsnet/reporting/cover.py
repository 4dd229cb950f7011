"""How well something stands for a new workload, as tables."""

from __future__ import annotations

from statsnet.evaluation.cover import Coverage
from statsnet.reporting.tables import Report, notes, pairs, percent, points, table

SHOWN = 10


def coverage_report(found: Coverage, new: str) -> Report:
    rows = [
        ("verdict", found.verdict),
        ("categories", f"{points(found.distances['category'])} apart"),
        ("kernel classes", f"{points(found.distances['kernel_class'])} apart"),
        ("phases", f"{points(found.distances['phase'])} apart"),
        ("not stood for", f"{percent(found.missing_share)} of its operator time"),
    ]
    report: Report = [pairs(f"How well {found.name} stands for {new}", rows)]
    if found.nearest:
        near = [(n.name, points(n.category), points(n.kernel_class)) for n in found.nearest[:SHOWN]]
        report.append(table("The nearest workloads", ("workload", "categories", "kernel classes"), near))
    missing = [f"{share:.1%}: {name}" for name, share in list(found.missing.items())[:SHOWN]]
    report += notes("kernel classes that nothing stands for, by share of operator time:", missing)
    return report + notes("the environments differ in:", found.differences)
