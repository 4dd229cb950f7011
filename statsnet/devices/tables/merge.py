"""Rows of the same operator become one row with the times of all devices."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from statsnet.devices.tables.row import Key, TableRow


class Merged:
    """Collects rows. If a device has several times for one operator, their median is kept."""

    def __init__(self) -> None:
        self._times: dict[Key, dict[str, list[float]]] = {}

    def add(self, row: TableRow) -> None:
        for device, time_s in row.time_s.items():
            self.add_time(row.key, device, time_s)

    def add_time(self, key: Key, device: str, time_s: float) -> None:
        self._times.setdefault(key, {}).setdefault(device, []).append(time_s)

    def rows(self) -> Iterable[TableRow]:
        """In the order in which they first came."""
        for (source, operator, dtype, dims, variant, direction), times in self._times.items():
            yield TableRow(
                source=source, operator=operator, dtype=dtype, dims=dims, variant=variant, direction=direction,
                time_s={d: t[0] if len(t) == 1 else median(t) for d, t in times.items()},
            )  # fmt: skip
