"""What other recorded devices say of operators: factors, and the risk of cut sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from clusters import tensor
from device_tables import BANDWIDTH, gemm_record, gemm_rows
from hypothesis import given
from hypothesis import strategies as st
from synthesis_builders import mix_of, small_signature

from benchmarks.diagnostics.cut_risk import learn
from statsnet.devices.cut_risk import CutRisk, RiskEntry, load_risk, save_risk
from statsnet.devices.device_record import build_record, load_record, save_record
from statsnet.devices.kernel_model import KernelModel, Known
from statsnet.devices.other_devices import Call, OtherDevices, other_devices
from statsnet.devices.recorded_bench import table_device
from statsnet.devices.table_times import TableTimes
from statsnet.devices.tables.row import TableRow
from statsnet.devices.tables.words import named
from statsnet.errors import FileFormatError
from statsnet.synthesis.program.elsewhere import Fate, mean_fate

RISK = CutRisk(
    entries=tuple(
        RiskEntry(operator=operator, axis=axis, decade=8, octaves=octaves, risk=0.1 * octaves, pairs=50)
        for operator, axis in (("gemm", "m"), ("pointwise", "bytes"))
        for octaves in (1, 3)
    )
)


def product(m: int, n: int, k: int, *, is_transposed: bool = False) -> tuple[str, str, list[object], list[object]]:
    right = tensor(k, n, strides=(1, k) if is_transposed else None)
    return "aten.mm.default", "forward", [tensor(m, k), right], [tensor(m, n)]


@pytest.fixture(scope="module")
def here() -> TableTimes:
    return TableTimes(gemm_record())


def times_of(device: str, rows: Sequence[TableRow], factor: float = 1.0) -> TableTimes:
    """Of a device on which all operators take `factor` times as long as in `rows`."""
    slower = [replace(row, time_s={device: factor * time_s}) for row in rows for time_s in row.time_s.values()]
    return TableTimes(build_record(slower, device))


def test_a_factor_is_the_ratio_of_the_two_records_times(here: TableTimes) -> None:
    known = {"slow": TableTimes(gemm_record("slow", 3.0)), "quick": TableTimes(gemm_record("quick", 0.5))}
    other = OtherDevices(here, known, RISK, [product(512, 512, 512)])
    assert other.names == ("quick", "slow")
    for call in (product(512, 512, 512), product(300, 40, 70)):
        assert other.fate(*call).factors == pytest.approx((0.5, 3.0), rel=0.1)


def test_a_device_that_is_left_out_is_not_even_read(tmp_path: Path) -> None:
    """What checks a proxy has no part in making it: its record may be damaged."""
    folder = tmp_path / "devices"
    folder.mkdir()
    for name in ("acme-one", "acme-two"):
        save_record(folder / f"{name}.json.gz", gemm_record(name))
    (folder / "acme-three.json.gz").write_bytes(b"damaged")
    mix = mix_of(small_signature())
    device = table_device(load_record(folder / "acme-one.json.gz"))
    known = other_devices(device, mix, tmp_path, without=["acme-three"])
    assert known is not None
    assert known.names == ("acme-two",)
    product_s, relu_s = (
        device.model.estimate(c.op, c.phase, c.args, c.outputs).time_s for c in mix.members[0].signature.clusters
    )
    assert known.shares == {"acme-two": pytest.approx(product_s / (product_s + relu_s))}, "it knows products alone"
    left = other_devices(device, mix, tmp_path, without=["acme-two", "acme-three"])
    assert left is not None
    assert left.names == ()
    with pytest.raises(FileFormatError):
        other_devices(device, mix, tmp_path)


def streams(operator: str, operands: int, factor: float) -> list[TableRow]:
    """Operators that take `factor` times as long as their bytes."""
    sizes = [1024 * i for i in range(1, 16)]
    return [
        TableRow(source="plain", operator=operator, dtype="float32", dims=named(operator, (rows, 4096)),
                 time_s={"acme-one": factor * operands * 4 * rows * 4096 / BANDWIDTH})
        for rows in sizes
    ]  # fmt: skip


def test_an_operator_that_a_record_lacks_changes_like_the_rooflines() -> None:
    """On a device of half the speed. Softmax takes four times the roofline here; were the other device's roofline
    compared with that, it would seem twice as quick there."""
    both = [*gemm_rows(60), *streams("add", 3, 1.0)]
    here, lacking = times_of("acme-one", [*both, *streams("softmax", 2, 4.0)]), times_of("acme-two", both, 2.0)
    numbers = tensor(8192, 4096)
    call: Call = ("aten._softmax.default", "forward", [numbers, -1, False], [numbers])
    ours, theirs = here.estimate(*call), lacking.estimate(*call)
    assert (ours.evidence, theirs.evidence) == ("model", "roofline")
    assert theirs.time_s / ours.time_s == pytest.approx(0.5, rel=0.1)
    (factor,) = OtherDevices(here, {"acme-two": lacking}, None, []).fate(*call).factors
    assert factor == pytest.approx(2.0, rel=0.1)


def test_no_risk_for_what_the_target_has_and_more_the_further_it_is_cut(here: TableTimes) -> None:
    other = OtherDevices(here, {}, RISK, [product(512, 512, 512)])
    at = [other.fate(*product(m, 512, 512)).risk for m in (512, 256, 128, 64)]
    assert at == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert other.fate(*product(1024, 512, 512)).risk == pytest.approx(0.1), "larger ones too"


def test_transposed_operands_are_another_kernel_class(here: TableTimes) -> None:
    plain, transposed = (here.estimate(*product(512, 256, 128, is_transposed=t)).kernel_class for t in (False, True))
    assert plain != transposed
    other = OtherDevices(here, {}, RISK, [product(512, 256, 128)])
    assert other.fate(*product(512, 256, 128)).risk == 0.0
    assert other.fate(*product(512, 256, 128, is_transposed=True)).risk == RISK.worst


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 5), st.floats(0, 1)), min_size=1, max_size=5))
def test_a_mean_fate_keeps_the_time_elsewhere(operators: list[tuple[float, float, float]]) -> None:
    mean = mean_fate((t, Fate(factors=(f,), risk=r)) for t, f, r in operators)
    total_s = sum(t for t, *_ in operators)
    assert mean is not None
    assert mean.factors[0] * total_s == pytest.approx(sum(t * f for t, f, _ in operators))
    assert mean.risk * total_s == pytest.approx(sum(t * r for t, _, r in operators))


def test_risks_are_learnt_from_pairs_that_differ_in_one_axis(tmp_path: Path) -> None:
    """On the second device each halving of m makes the factor e^0.2 times as large."""
    rows = [
        TableRow(
            source="plain", operator="gemm", dtype="float32", dims=named("gemm", (1, 2**j, n, 64)), variant="NN",
            time_s={"acme-one": 1e-3, "acme-two": 1e-3 * 2.718281828459045 ** (-0.2 * j)},
        )
        for j in range(6, 10)
        for n in range(64, 84)
    ]  # fmt: skip
    risk = learn(rows)
    assert {(e.operator, e.axis) for e in risk.entries} == {("gemm", "m")}
    for entry in risk.entries:
        assert entry.risk == pytest.approx(0.2 * entry.octaves, abs=1e-3)
    assert learn(rows, without=["acme-two"]).entries == ()
    save_risk(tmp_path / "risk.json", risk)
    assert load_risk(tmp_path / "risk.json") == risk
    (tmp_path / "other.json").write_text('{"kind": "statsnet.cut_risk", "schema_version": 99}')
    with pytest.raises(FileFormatError, match="risks of cut sizes that this StatsNet reads"):
        load_risk(tmp_path / "other.json")


def test_measured_devices_are_compared_as_those_of_tables_are() -> None:
    """By their times, and by their rooflines where the other was measured on nothing alike."""
    sizes = (256, 512, 1024)

    def measured(factor: float) -> KernelModel:
        return KernelModel(known(product(n, n, n), factor * 1e-9 * n**2) for n in sizes)

    here = measured(1.0)
    relu = "aten.relu.default", "forward", [tensor(512, 512)], [tensor(512, 512)]
    copies = KernelModel([known(relu, 1e-4)])
    other = OtherDevices(here, {"copies": copies, "twice": measured(2.0)}, None, [])
    call = product(512, 512, 512)
    op, _, args, outputs = call
    by_rates = copies.roofline_s(op, args, outputs) / here.roofline_s(op, args, outputs)
    assert other.fate(*call).factors == pytest.approx((by_rates, 2.0))


def known(call: tuple[str, str, list[object], list[object]], time_s: float) -> Known:
    op, phase, args, outputs = call
    return Known(op=op, phase=phase, args=args, outputs=outputs, time_s=time_s, kernel="unknown")
