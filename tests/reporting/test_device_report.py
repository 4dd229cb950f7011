"""What the report of a record says that its sources lack: what is estimated by the roofline, and nothing else."""

from __future__ import annotations

import io
from dataclasses import replace

from device_tables import BANDWIDTH, gemm_rows
from rich.console import Console

from statsnet.devices.device_record import DeviceRecord, ExactTime, build_record
from statsnet.devices.tables.row import TableRow
from statsnet.devices.tables.words import named
from statsnet.reporting.device import record_report

WORK = (("flops", 0), ("bytes_read", 4096), ("bytes_written", 1024))


def lacking(record: DeviceRecord) -> list[str]:
    """The entries of the report's line."""
    stream = io.StringIO()
    console = Console(file=stream, width=1000, markup=False)
    for part in record_report(record):
        console.print(part)
    (line,) = (line for line in stream.getvalue().splitlines() if line.startswith("no table has"))
    return line.removeprefix("no table has").strip().split("; ")


def test_a_stand_in_is_not_lacking_and_neither_is_what_was_recorded() -> None:
    """Products are known in float32; additions in float16, which stand for point-wise operators of any dtype."""
    additions = [
        TableRow(source="plain", operator="add", dtype="float16", dims=named("add", (64 * i, 4096)),
                 time_s={"acme-one": 3 * 2 * 64 * i * 4096 / BANDWIDTH})
        for i in range(1, 41)
    ]  # fmt: skip
    record = build_record([*gemm_rows(40), *additions], "acme-one")
    found = lacking(record)
    assert "products (float16)" in found and "softmax (float32, float16)" in found
    assert not any("point-wise" in entry for entry in found)
    assert found[-1].startswith("pooling, ") and "optimizers" in found[-1]
    of_work = {"dtype": "float16", "variant": "", "direction": "forward", "time_s": 1e-5}
    exact = (
        ExactTime(operator="gemm", dims=named("gemm", (1, 64, 64, 64)), **of_work),
        ExactTime(operator="aten.max_pool2d_with_indices", dims=WORK, **of_work),
    )
    found = lacking(replace(record, exact=exact))
    assert not any("products" in entry or "pooling" in entry for entry in found)
    assert "optimizers" in found[-1]
