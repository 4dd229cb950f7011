"""Small tables in the formats of the published ones, with times of an analytic device."""

from __future__ import annotations

import gzip
import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from statsnet.devices import fit_performance
from statsnet.devices.device_record import DeviceRecord, build_record
from statsnet.devices.tables.row import TableRow
from statsnet.devices.tables.words import named

PEAK, BANDWIDTH, LATENCY_S = 10e12, 500e9, 5e-6


def gemm_time_s(m: int, n: int, k: int) -> float:
    """A device with 100 cores, tiles of 128 by 128, and waves."""
    waves = math.ceil(math.ceil(m / 128) * math.ceil(n / 128) / 100)
    return LATENCY_S + max(waves * 100 * 128 * 128 * 2 * k / PEAK, 4 * (m * k + k * n + m * n) / BANDWIDTH)


def gemm_rows(count: int, *, noise: float = 0.02, seed: int = 0, device: str = "acme-one") -> list[TableRow]:
    """Products of random sizes with times that scatter by `noise` (standard deviation of the logarithm)."""
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.uniform(math.log(16), math.log(4096), size=(count, 3))).astype(int)
    return [
        TableRow(
            source="plain", operator="gemm", dtype="float32", dims=named("gemm", (1, m, n, k)), variant="NN",
            time_s={device: gemm_time_s(m, n, k) * math.exp(noise * rng.standard_normal())},
        )
        for m, n, k in sizes.tolist()
    ]  # fmt: skip


@cache
def gemm_record(device: str = "acme-one", factor: float = 1.0) -> DeviceRecord:
    """Of a device whose products take `factor` times as long. Fitted once for all tests of a process: that takes
    seconds."""
    rows = [replace(row, time_s={device: factor * time_s}) for row in gemm_rows(60) for time_s in row.time_s.values()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_performance, "ONE_SPLIT", 0)  # its error is known from one fit, not from five
        return build_record(rows, device)


def plain_table(rows: list[TableRow]) -> str:
    """The rows as a plain table."""
    lines = ["operator,dtype,device,time_us,m,n,k,variant"]
    for row in rows:
        dims = dict(row.dims)
        for device, time_s in row.time_s.items():
            lines.append(f"gemm,fp32,{device},{1e6 * time_s!r},{dims['m']},{dims['n']},{dims['k']},{row.variant}")
    return "\n".join(lines) + "\n"


def write_table(folder: Path, name: str, text: str) -> Path:
    """A file with this text, packed if its name says so."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path
