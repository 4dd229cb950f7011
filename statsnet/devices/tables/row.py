"""One operator of a published table, with its time on every device that the table has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Literal

Direction = Literal["forward", "backward_data", "backward_weight", "backward"]

Key = tuple[str, str, str, tuple[tuple[str, int], ...], str, Direction]
"""Source, operator, dtype, dims, variant, direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One operator with given dims.

    `operator` is a word of ours, the same for all sources: `gemm`, `convolution`, `attention_prefill`,
    `attention_decode`, `moe`, `softmax`, `layer_norm`, `add`, `lstm`, ... `dims` are named sizes in a fixed order for
    each operator (a gemm has batch, m, n, k). `variant` is whatever else picks another kernel: transposition, layout,
    window, distribution.
    `time_s` holds the seconds of one call by the device's canonical name; a device that was not measured is missing.
    """

    source: str
    operator: str
    dtype: str
    dims: tuple[tuple[str, int], ...]
    variant: str = ""
    direction: Direction = "forward"
    time_s: Mapping[str, float]

    @property
    def key(self) -> Key:
        """What makes it this operator, whatever the device."""
        return (self.source, self.operator, self.dtype, self.dims, self.variant, self.direction)


class Merged:
    """Rows of the same operator become one row with the times of all devices. If a device has several
    times for one operator, their median is kept."""

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
