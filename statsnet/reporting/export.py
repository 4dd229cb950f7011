"""What an export holds, and what its format cannot, as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from statsnet.exports.manifest import Manifest
from statsnet.exports.registry import Export
from statsnet.reporting.tables import MISSING, Report, line, notes, pairs, percent, signed_percent, table
from statsnet.signatures.conversion import plain
from statsnet.signatures.simulation import LeftOut
from statsnet.units import format_bytes, format_duration, format_quantity, plural

MOST_ROWS = 15


def export_report(manifest: Manifest, made: Export) -> Report:
    totals = manifest.totals
    report: Report = [
        pairs(
            f"{manifest.title}: {plural(len(manifest.layers), f'{manifest.layer_mode} layer')}",
            [
                ("repeats count", manifest.unit),
                ("reference device", manifest.reference.words),
                ("multiply-adds", f"{format_quantity(totals.macs)} in all; {format_quantity(totals.simulated_macs)} "
                                  "if each distinct product runs once"),
                ("read, written", f"{format_bytes(totals.bytes_read)}, {format_bytes(totals.bytes_written)}"),
                ("time there", format_duration(round(totals.time_s, 9)) if totals.time_s else MISSING),
                ("files", ", ".join(sorted(made.files))),
            ],
        )
    ]  # fmt: skip
    if manifest.layer_mode == "scaled":
        report.append(scaled_table(manifest))
    return [*report, *_left_out(made), *notes("note", made.notes)]


def scaled_table(manifest: Manifest) -> Table:
    """The scaled layers, with what is predicted of them."""
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
    by_operator: dict[tuple[str, str], list[LeftOut]] = defaultdict(list)
    for row in made.left_out:
        by_operator[row.operator, row.reason].append(row)
    ordered = sorted(by_operator.items(), key=lambda item: (-_macs(item[1]), -(_time(item[1]) or 0.0), item[0]))
    rows = [(*what, *_amounts(layers)) for what, layers in ordered[:MOST_ROWS]]
    if len(ordered) > MOST_ROWS:
        rest = [layer for _, layers in ordered[MOST_ROWS:] for layer in layers]
        rows.append((f"{len(ordered) - MOST_ROWS} more operators", "see left-out.csv", *_amounts(rest)))
    columns = ("operator", "why", "layers", "of the MACs", "of the time")
    return [table("What this format does not hold", columns, rows, left=2)]


def _amounts(layers: Sequence[LeftOut]) -> tuple[str, str, str]:
    return str(len(layers)), percent(_macs(layers)), percent(_time(layers))


def _macs(layers: Sequence[LeftOut]) -> float:
    return sum(layer.macs_share or 0.0 for layer in layers)


def _time(layers: Sequence[LeftOut]) -> float | None:
    """Their share of the time; None where none is known."""
    known = [layer.time_share for layer in layers if layer.time_share is not None]
    return sum(known) if known else None


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
