"""A mix as tables."""

from __future__ import annotations

from statsnet.reporting.tables import MISSING, Report, environment_line, notes, percent, table
from statsnet.signatures.mix import Mix
from statsnet.units import format_duration, format_quantity, plural


def mix_report(mix: Mix) -> Report:
    """Its members with their shares of device time, and where they were measured."""
    rows, environments = [], []
    for member in mix.members:
        signature, measurement = member.signature, member.measurement
        is_timed = measurement is not None and bool(measurement.step_latency_s)
        rows.append(
            (
                member.name,
                signature.workload.preset if signature.workload and signature.workload.preset else MISSING,
                signature.dtype,
                percent(member.weight),
                str(signature.batch or MISSING),
                format_duration(measurement.latency_s if measurement and is_timed else None),
                format_quantity(signature.flops_per_step, "FLOP"),
            )
        )
        if measurement is not None:
            environments.append(environment_line(measurement.environment))
    title = f"A mix of {plural(len(mix.members), 'workload')}, {mix.mode}"
    columns = ("workload", "preset", "dtype", "share of device time", "batch", "step", "work")
    return [table(title, columns, rows, left=3), *notes("measured on:", dict.fromkeys(environments))]
