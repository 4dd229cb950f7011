"""What an export holds, and what its format cannot, as tables."""

from __future__ import annotations

from typing import Any

from statsnet.exports.manifest import Manifest
from statsnet.exports.registry import Export
from statsnet.reporting.tables import MISSING, Report, line, notes, pairs, percent, signed_percent, table
from statsnet.signatures.conversion import plain
from statsnet.units import format_bytes, format_duration, format_quantity, plural

MOST_ROWS = 15


def export_report(manifest: Manifest, made: Export) -> Report:
    totals = manifest.totals
    reference = manifest.reference
    device = "as measured" if reference.kind == "measured" else (
        f"roofline of {format_quantity(reference.flops_per_s, 'FLOP/s')} and "
        f"{format_quantity(reference.bytes_per_s, 'B/s')}"
    )  # fmt: skip
    report: Report = [
        pairs(
            f"{manifest.title}: {plural(len(manifest.layers), f'{manifest.layer_mode} layer')}",
            [
                ("repeats count", manifest.unit),
                ("reference device", device),
                ("multiply-adds", f"{format_quantity(totals.macs)} in all; {format_quantity(totals.simulated_macs)} "
                                  "if each distinct product runs once"),
                ("read, written", f"{format_bytes(totals.bytes_read)}, {format_bytes(totals.bytes_written)}"),
                ("time there", format_duration(round(totals.time_s, 9)) if totals.time_s else MISSING),
                ("files", ", ".join(sorted(made.files))),
            ],
        )
    ]  # fmt: skip
    if manifest.layer_mode == "scaled":
        report.append(_scaled(manifest))
    return [*report, *_left_out(made), *notes("note", made.notes)]


def _scaled(manifest: Manifest) -> Any:
    rows = []
    for layer in manifest.layers:
        if (scaling := layer.scaling) is not None:
            p = scaling.prediction
            rows.append((
                layer.name, scaling.of_operator, ", ".join(f"{c.axis} {c.unscaled}→{c.size}" for c in scaling.cuts),
                percent(p.utilisation_unscaled), percent(p.utilisation), signed_percent(p.largest_change),
                format_bytes(p.working_set_bytes_unscaled), format_bytes(p.working_set_bytes),
                percent(scaling.macs_share),
            ))  # fmt: skip
    columns = ("layer", "from", "axes", "utilisation", "scaled", "furthest", "working set", "scaled", "of the MACs")
    return table("Scaled layers, as predicted over a spread of arrays and dataflows", columns, rows, left=3)


def _left_out(made: Export) -> Report:
    if not made.left_out:
        return [line("nothing is left out")]
    by_operator: dict[tuple[str, str], list[Any]] = {}
    for row in made.left_out:
        found = by_operator.setdefault((row.operator, row.reason), [0, 0.0, None])
        found[0] += 1
        found[1] += row.macs_share or 0.0
        found[2] = row.time_share if found[2] is None else found[2] + (row.time_share or 0.0)
    ordered = sorted(by_operator.items(), key=lambda item: (-item[1][1], -(item[1][2] or 0.0), item[0]))
    rows = [(operator, reason, str(layers), percent(macs), percent(time_s))
            for (operator, reason), (layers, macs, time_s) in ordered[:MOST_ROWS]]  # fmt: skip
    if len(ordered) > MOST_ROWS:
        rest = [amounts for _, amounts in ordered[MOST_ROWS:]]
        rows.append((f"{len(rest)} more operators", "see left-out.csv", str(sum(a[0] for a in rest)),
                     percent(sum(a[1] for a in rest)), percent(sum(a[2] or 0.0 for a in rest))))  # fmt: skip
    columns = ("operator", "why", "layers", "of the MACs", "of the time")
    return [table("What this format does not hold", columns, rows, left=2)]


def export_data(manifest: Manifest, made: Export) -> dict[str, Any]:
    """The same for machines."""
    return {
        "title": manifest.title,
        "unit": manifest.unit,
        "layer_mode": manifest.layer_mode,
        "format": made.format,
        "files": sorted(made.files),
        "layers": len(manifest.layers),
        "held": made.held,
        "totals": plain(manifest.totals),
        "left_out": plain(made.left_out),
        "notes": list(made.notes),
    }
