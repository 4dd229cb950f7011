"""Whether a device's times in a table can be in the unit that its columns say.

Limits are five times or more beyond what the published tables of 30 devices hold, from a Raspberry Pi to a GB300, and
a unit is off by 1000.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np

from statsnet.devices.hardware import UNKNOWN, chip_of
from statsnet.devices.operator_work import item_bytes
from statsnet.devices.reached import PRODUCTS, STREAMS
from statsnet.devices.tables.row import TableRow
from statsnet.devices.tables.words import OPERATOR_DIMS, ROWS

FEW = 20
"""Fewer times of a kind are no proof."""

LEAST_FLOPS, LEAST_WORK = 1e8, 1e8
"""A device whose best rate over operators of LEAST_WORK FLOPs is below LEAST_FLOPS FLOP/s is slower than any phone."""

SHORTEST_S = 0.15e-6
"""More than a twentieth of all times is never shorter: a call alone takes longer. On a TPU it was 0.6 µs, elsewhere
1.9 µs."""

SMALL_FLOPS, SMALL_BYTES, LONGEST_S = 1e8, 1e6, 0.5e-3
"""On a chip of ours so little work takes less than LONGEST_S; at most 0.14 ms in the tables."""

LARGE_FLOPS, LARGE_BYTES, INTENSE = 1e9, 3e7, 16.0
"""From here on an operator's rate tells of the device; a product's where it has so many FLOPs for a byte."""

CORE_FLOPS, CORE_BYTES = 128e9, 10e9
"""FLOP/s of float32 and byte/s of one core that has no matrix units. The best hundredth of operators in the tables
reaches 0.6 to 55 times the one, 0.4 to 9 times the other. float64 reaches 0.1 at best on GPUs for graphics."""

LEAST_COMPUTED, MOST_COMPUTED = 0.02, 300.0
LEAST_MOVED, MOST_MOVED = 0.03, 100.0

MANY, FAR, MOST_FAR = 50, 30.0, 0.08
"""Of a device with MANY products and point-wise operators, at most 3 % are FAR off their roofline's usual time."""


class Units:
    """The times of one device in one table, to be judged when all of them were seen."""

    def __init__(self, device: str) -> None:
        self._chip = chip_of(device)
        self._times, self._small = array("d"), array("d")
        self._computed, self._moved = array("d"), array("d")
        self._rooflines = array("d")
        self._best = 0.0

    def add(self, row: TableRow, time_s: float, flops: float, nbytes: float) -> None:
        """One row's time, and the work that it took."""
        self._times.append(time_s)
        if flops <= SMALL_FLOPS and nbytes <= SMALL_BYTES and (flops or row.operator in STREAMS):
            self._small.append(time_s)
        if flops >= LEAST_WORK:
            self._best = max(self._best, flops / time_s)
        if row.operator in PRODUCTS and flops >= LARGE_FLOPS and flops > INTENSE * nbytes:
            self._computed.append(flops * item_bytes(row.dtype) / 4 / time_s / self._chip.cores / CORE_FLOPS)
        if OPERATOR_DIMS.get(row.operator) == ROWS and nbytes >= LARGE_BYTES:
            self._moved.append(nbytes / time_s / self._chip.cores / CORE_BYTES)
        if row.operator in PRODUCTS or row.operator in STREAMS:
            self._rooflines.extend((time_s, flops, nbytes))

    def faults(self) -> Iterator[str]:
        """Why the times are in another unit, or in several."""
        if len(self._times) >= FEW and (short := float(np.quantile(self._times, 0.05))) < SHORTEST_S:
            yield f"a twentieth of its times is shorter than {1e6 * short:.2g} µs, which no call takes"
        if 0 < self._best < LEAST_FLOPS:
            yield f"its best rate is {self._best:.2g} FLOP/s"
        is_known = self._chip is not UNKNOWN
        if is_known and len(self._small) >= FEW and (long := float(np.quantile(self._small, 0.1))) > LONGEST_S:
            yield f"nine tenths of its smallest operators take more than {1e3 * long:.2g} ms"
        for rates, least, most, what in (
            (self._computed, LEAST_COMPUTED, MOST_COMPUTED, "FLOP/s"),
            (self._moved, LEAST_MOVED, MOST_MOVED, "byte/s"),
        ):
            if len(rates) < FEW:
                continue
            best = float(np.quantile(rates, 0.99))
            if best > most or (is_known and best < least):
                yield f"its large operators reach {best:.2g} times the usual {what} of so many cores"
        if (share := self._far_off()) > MOST_FAR:
            yield f"{share:.0%} of its times are more than {FAR:.0f} times off what the others lead to expect"

    def _far_off(self) -> float:
        """The share of times that are far off the roofline of the device's usual rates."""
        times, flops, nbytes = np.array(self._rooflines).reshape(-1, 3).T
        if len(times) < MANY:
            return 0.0
        expected = np.quantile(times, 0.01) + flops / _usual(flops, times, LARGE_FLOPS)
        expected += nbytes / _usual(nbytes, times, LARGE_BYTES)
        off = np.log(times / expected)
        return float((np.abs(off - np.median(off)) > np.log(FAR)).mean())


def _usual(work: np.ndarray, times: np.ndarray, large: float) -> float:
    chosen = work >= large
    return float(np.median(work[chosen] / times[chosen])) if chosen.any() else np.inf
