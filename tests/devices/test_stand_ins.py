"""Point-wise operators that a device's tables lack, and what else is estimated without a table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from device_tables import BANDWIDTH, LATENCY_S, gemm_record, gemm_rows

from statsnet.devices.device_record import build_record
from statsnet.devices.operator_mapping import Mapped, mapped
from statsnet.devices.operator_work import work_of
from statsnet.devices.reached import STREAMED
from statsnet.devices.table_times import TableTimes, stand_ins
from statsnet.devices.tables.row import TableRow
from statsnet.devices.tables.words import named

BIG = {"shape": [64, 256, 128], "dtype": "float32"}
ROW = {"shape": [128], "dtype": "float32"}


def adding(count: int = 60, factor: float = 1.25) -> list[TableRow]:
    """Additions in float16, which take `factor` times as long as their bytes."""
    rows = []
    for i in range(count):
        dims = named("add", (64 * (i + 1), 4096))
        nbytes = work_of("add", "float16", dict(dims))[1]
        time_s = LATENCY_S + factor * nbytes / BANDWIDTH
        rows.append(TableRow(source="plain", operator="add", dtype="float16", dims=dims, time_s={"acme-one": time_s}))
    return rows


def test_a_point_wise_operator_is_one_with_as_many_bytes() -> None:
    times = TableTimes(build_record([*gemm_rows(60), *adding()], "acme-one"))
    product = times.estimate("aten.mul.Tensor", "forward", [BIG, BIG], [BIG])
    assert product.evidence == "model"
    nbytes = 3 * 4 * 64 * 256 * 128
    assert product.time_s == pytest.approx(LATENCY_S + 1.25 * nbytes / BANDWIDTH, rel=0.1)
    assert times.estimate("aten.mul.Tensor", "forward", [BIG, ROW], [BIG]).evidence == "roofline"  # reads one operand
    assert times.estimate("aten._softmax.default", "forward", [BIG, -1, False], [BIG]).evidence == "roofline"


def test_stand_ins_move_the_same_bytes() -> None:
    for operator, variant in (("mul", ""), ("add", "scalar"), ("tanh", ""), ("pow", "scalar")):
        part = Mapped(operator=operator, dtype="float32", dims=named("add", (100, 36)), variant=variant)
        work = {work_of(s.operator, s.dtype, dict(s.dims), s.variant) for s in stand_ins(part)}
        assert len(work) == 1
    odd = Mapped(operator="relu", dtype="int8", dims=named("relu", (100, 3)))
    assert {s.dtype for s in stand_ins(odd)} == {"int8"}
    softmax = Mapped(operator="softmax", dtype="float16", dims=named("softmax", (4, 4)))
    assert list(stand_ins(softmax)) == [softmax]


@pytest.mark.parametrize(("operands", "variant"), [([BIG, BIG], ""), ([BIG, ROW], "scalar"), ([ROW, BIG], "scalar"),
                                                    ([BIG, 2.0], "scalar")])  # fmt: skip
def test_an_operand_that_stays_in_the_cache_does_not_count(operands: list[object], variant: str) -> None:
    (found,) = mapped("aten.mul.Tensor", operands, [BIG]) or ()
    assert found.variant == variant


def test_moving_and_computing_have_ratios_of_their_own() -> None:
    """A device's small products, far from the roofline, say nothing of what moves bytes."""
    reached = gemm_record().reached
    assert reached.moving == STREAMED and reached.computing.rows > 0
    moved = reached.estimate("float32", 0.0, 4e9)
    assert moved.time_s == pytest.approx(4e9 / reached.bytes_per_s)
    assert reached.estimate("float32", 1.0, 1.0).time_s == reached.latency_s
    reached = build_record([*gemm_rows(60), *adding(400, 1.25)], "acme-one").reached
    assert reached.moving.rows > 100
    assert reached.estimate("float32", 0.0, 4e9).time_s == pytest.approx(1.25 * 4e9 / BANDWIDTH, rel=0.05)


def test_float32_of_a_device_that_was_measured_in_16_bit_runs_at_its_data_sheets_rate() -> None:
    """Matrix units do not compute it: half of their rate in 16 bit would be seven times too much."""
    record = gemm_record()
    reached = replace(record.reached, flops_per_s={"bfloat16": 7e14})
    here = replace(record, device="nvidia-h200-sxm", reached=reached)
    wide_s, narrow_s = (here.roofline(dtype, 1e13, 1.0).time_s for dtype in ("float32", "bfloat16"))
    assert wide_s / narrow_s == pytest.approx(7e14 / 66.9e12)
