"""What a device reached, from its tables: rates, and how far times are from the roofline.

What no table has is estimated from these. Operators bound by computing and by moving their bytes are told apart: the
former take 1.2 to 4.6 times the roofline in the median of a device that ships, point-wise operators beyond the cache
0.7 to 1.2 times (`statsnet device show NAME` prints both).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from statsnet.devices.hardware import chip_of
from statsnet.devices.operator_work import item_bytes, work_of
from statsnet.devices.performance_model import Count, LogRatio, Positive, Prediction
from statsnet.devices.tables.row import TableRow

PRODUCTS = frozenset({"gemm", "convolution", "moe", "attention_prefill", "attention_encoder", "mla_bmm"})
STREAMS = frozenset({"add", "sub", "mul", "div", "relu", "gelu", "tanh"})
"""Operators that read and write each number once."""

SIXTEEN_BIT = {"float16": "bfloat16", "bfloat16": "float16"}
"""GPUs run both at the same rates."""

FEWEST = 20
"""Quantiles need as many rows."""

INTENSE = 16.0
"""FLOPs per byte from which a product tells something of the rate of its dtype."""

MOST_LATENCY_S = 5e-6
"""A call that does next to nothing takes no longer, whatever the tables' shortest operator is."""

LONG = 5.0
"""Operators of so many times the least time of a call are not bound by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Quantiles of ln(time ÷ roofline): the median, and the bounds of four fifths and 95 %. `rows` 0: those of other
    devices."""

    rows: Count
    usual: LogRatio
    low_80: LogRatio
    high_80: LogRatio
    low_95: LogRatio
    high_95: LogRatio


STREAMED = Spread(rows=0, usual=0.0, low_80=-0.08, high_80=0.25, low_95=-0.4, high_95=0.6)
"""Point-wise operators beyond the cache on a device whose tables have none: over all devices that have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What the device reached: the least time of a call, byte/s, and FLOP/s by dtype; `computing` and `moving`: how far
    operators that each of them bounds are from the roofline."""

    latency_s: Positive
    bytes_per_s: Positive
    flops_per_s: dict[str, Positive]
    computing: Spread
    moving: Spread

    def computing_s(self, dtype: str, flops: float) -> float:
        """Seconds. A dtype that was not measured has the rate of the nearest one, in proportion to its size."""
        peak = self.flops_per_s.get(dtype) or self.flops_per_s.get(SIXTEEN_BIT.get(dtype, ""))
        if peak is None and self.flops_per_s:
            size = item_bytes(dtype)
            near = min(self.flops_per_s, key=lambda d: abs(math.log(item_bytes(d) / size)))
            peak = self.flops_per_s[near] * item_bytes(near) / size
        return flops / peak if peak else 0.0

    def estimate(self, dtype: str, flops: float, nbytes: float) -> Prediction:
        """The roofline times the usual ratio, and at least the least time of a call."""
        computing_s, moving_s = self.computing_s(dtype, flops), nbytes / self.bytes_per_s
        spread = self.computing if computing_s > moving_s else self.moving
        time_s = max(max(computing_s, moving_s) * math.exp(spread.usual), self.latency_s)
        return Prediction(time_s=time_s, evidence="roofline")


def reached_by(rows: Sequence[TableRow], device: str) -> Reached:
    """Rates near the best that the rows reach: 99 % of the FLOP/s are below, 95 % of the bytes/s of what does not fit
    in the cache."""
    times = np.array([row.time_s[device] for row in rows])
    works = [work_of(row.operator, row.dtype, dict(row.dims), row.variant) for row in rows]
    flops, nbytes = np.array([w[0] for w in works]), np.array([w[1] for w in works])
    cache_bytes = chip_of(device).cache_bytes
    large = nbytes > 4 * cache_bytes
    moved = (nbytes / times)[large if large.sum() >= 10 else nbytes > 0]
    latency_s = min(float(np.quantile(times, 0.01)), MOST_LATENCY_S)
    peaks: dict[str, float] = {}
    for dtype in sorted({row.dtype for row in rows}):
        products = np.array([row.dtype == dtype and row.operator in PRODUCTS for row in rows]) & (flops > 0)
        if (products & (flops > INTENSE * nbytes)).any():
            peaks[dtype] = float(np.quantile((flops / times)[products], 0.99))
    rates = Reached(
        latency_s=latency_s,
        bytes_per_s=float(np.quantile(moved, 0.95)) if len(moved) else 1e12,
        flops_per_s=peaks, computing=STREAMED, moving=STREAMED,
    )  # fmt: skip
    computing_s = np.array([rates.computing_s(row.dtype, f) for row, f in zip(rows, flops, strict=True)])
    moving_s = nbytes / rates.bytes_per_s
    off = np.log(times / np.maximum(np.maximum(computing_s, moving_s), rates.latency_s))
    bound_by_computing = computing_s > moving_s
    streams = np.array([row.operator in STREAMS for row in rows]) & (nbytes > 2 * cache_bytes)
    streams &= moving_s > LONG * rates.latency_s
    computing = _first_of([bound_by_computing & (computing_s > LONG * rates.latency_s), bound_by_computing])
    return Reached(
        latency_s=rates.latency_s, bytes_per_s=rates.bytes_per_s, flops_per_s=peaks,
        computing=_spread(off[computing]) if computing is not None else _spread(off),
        moving=_spread(off[streams]) if streams.sum() >= FEWEST else STREAMED,
    )  # fmt: skip


def _first_of(choices: Sequence[np.ndarray]) -> np.ndarray | None:
    """The first that marks enough rows."""
    return next((chosen for chosen in choices if chosen.sum() >= FEWEST), None)


def _spread(off: np.ndarray) -> Spread:
    usual, low_80, high_80, low_95, high_95 = (float(q) for q in np.quantile(off, (0.5, 0.1, 0.9, 0.025, 0.975)))
    return Spread(rows=len(off), usual=usual, low_80=low_80, high_80=high_80, low_95=low_95, high_95=high_95)
