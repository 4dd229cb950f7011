"""A recorded device as tables."""

from __future__ import annotations

from statistics import fmean

from statsnet.devices.recorded_bench import RecordedDevice
from statsnet.reporting.tables import Report, environment_line, pairs, percent, table
from statsnet.units import format_duration, format_quantity


def device_report(device: RecordedDevice) -> Report:
    """What was measured, the roofline that it reaches, and how well operators are predicted from each other."""
    errors = device.model.errors()
    rows = [
        ("device", environment_line(device.environment)),
        ("operators", f"{device.operators} measured"),
        ("peak reached", f"{format_quantity(device.model.flops_per_s, 'FLOP/s')}, "
         f"{format_quantity(device.model.bytes_per_s, 'B/s')}"),
        ("shortest call", format_duration(device.model.shortest_s)),
        ("between two", format_duration(device.between_s)),
    ]  # fmt: skip
    if errors:
        rows.append(("error of a new size", f"{percent(fmean(e for _, e in errors.values()))} (mean of medians)"))
    operators = sorted(errors.items(), key=lambda e: -e[1][0])
    kinds = table(
        "Predicted from the others",
        ("operator", "measured", "median error"),
        ((name, str(count), percent(error)) for name, (count, error) in operators),
    )
    return [pairs("A recorded device", rows), *([kinds] if errors else [])]
