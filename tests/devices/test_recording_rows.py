"""Records from imported recordings: what was recorded is known exactly, beside what tables say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cli_support import GOLDEN
from device_tables import gemm_rows
from torch.profiler import ProfilerActivity, profile

from benchmarks.diagnostics.recorded_device_check import checked_operators, table_of
from statsnet.devices.device_record import build_record, load_record, save_record
from statsnet.devices.names import canonical_name, is_known
from statsnet.devices.operator_mapping import mapped
from statsnet.devices.recording_rows import is_recording, read_recordings
from statsnet.devices.table_times import TableTimes
from statsnet.errors import FileFormatError, StatsNetError, UsageError
from statsnet.recordings.kineto import read_kineto
from statsnet.signatures.model import Signature
from statsnet.signatures.storage import load_signature, save_signature

DEVICE = "acme-one"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of products, pooling, and a convolution with its backward."""
    torch.manual_seed(0)
    images = torch.randn(2, 3, 16, 16, requires_grad=True)
    weight = torch.randn(4, 3, 3, 3, requires_grad=True)

    def step() -> None:
        pooled = torch.nn.functional.max_pool2d(torch.conv2d(images, weight), 2)
        (pooled.flatten(1) @ torch.randn(196, 32)).softmax(-1).sum().backward()

    step()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as session:
        step()
    path = tmp_path_factory.mktemp("traces") / "trace.json"
    session.export_chrome_trace(str(path))
    return path


@pytest.fixture(scope="module")
def signature(trace: Path) -> Signature:
    return read_kineto(trace).signature


def test_a_recorded_step_is_predicted_exactly(trace: Path, signature: Signature, tmp_path: Path) -> None:
    recorded = read_recordings([trace], DEVICE)
    assert any("taken to be acme-one" in note for note in recorded.notes)
    noted = {f"trace.json: {note}" for note in read_kineto(trace).notes}
    assert noted and noted <= {*recorded.notes}
    save_record(tmp_path / "r.json.gz", build_record(recorded.rows, DEVICE))
    record = load_record(tmp_path / "r.json.gz")
    assert record.sources[0].source == "recording"
    names = {row.operator for row in recorded.rows}
    assert {"gemm", "convolution", "softmax", "aten.max_pool2d_with_indices", "aten.convolution_backward"} <= names
    operators = checked_operators(signature, record)
    assert {o.evidence for o in operators} == {"exact"}
    assert sum(o.predicted_s for o in operators) == pytest.approx(sum(o.measured_s for o in operators), rel=0.05)
    assert "| **all** | 100.0% |" in table_of(operators)


def test_several_recordings_and_tables_make_one_record(signature: Signature, tmp_path: Path) -> None:
    """A product that was recorded twice has the median of its times; others are predicted from the table."""
    (measurement,) = signature.measurements
    slower = replace(measurement, cluster_time_s=tuple(3 * t if t else t for t in measurement.cluster_time_s))
    for name, each in (("a.json", measurement), ("b.json", slower)):
        save_signature(tmp_path / name, replace(signature, measurements=(each,)))
    rows = read_recordings([tmp_path / "a.json", tmp_path / "b.json"], DEVICE).rows
    times = TableTimes(build_record([*gemm_rows(40), *rows], DEVICE))
    place, product = next((i, c) for i, c in enumerate(signature.clusters) if c.op.startswith("aten.mm"))
    measured = (measurement.cluster_time_s[place] or 0.0) / product.calls
    exact = times.estimate(product.op, product.phase, product.args, product.outputs)
    assert (exact.evidence, exact.time_s) == ("exact", pytest.approx(2 * measured, rel=1e-4))
    shapes = ((512, 256), (256, 128), (512, 128))
    left, right, out = ({"shape": list(shape), "dtype": "float32"} for shape in shapes)
    assert times.estimate("aten.mm.default", "forward", [left, right], [out]).evidence == "model"
    assert mapped("aten.mm.default", [left, right], [out])


def test_operators_whose_names_no_record_may_have_are_left_out_and_counted(
    tmp_path: Path, signature: Signature, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_signature(tmp_path / "s.json", signature)
    before = read_recordings([tmp_path / "s.json"], DEVICE)
    monkeypatch.setattr("statsnet.devices.tables.checks.LONGEST_WORD", 20)
    after = read_recordings([tmp_path / "s.json"], DEVICE)
    assert {row.operator for row in after.rows} == {r.operator for r in before.rows if len(r.operator) <= 20}
    assert {r.operator for r in before.rows if len(r.operator) > 20}
    assert any("more than 20 characters" in note for note in after.notes)


def test_what_is_no_recording(tmp_path: Path, signature: Signature) -> None:
    assert is_recording(GOLDEN) and not is_recording(tmp_path) and not is_recording(tmp_path / "t.csv.gz")
    with pytest.raises(UsageError, match="is not there"):
        read_recordings([tmp_path / "no.json"], DEVICE)
    counted = replace(signature, measurements=())
    save_signature(tmp_path / "counted.json", counted)
    with pytest.raises(UsageError, match="has a time"):
        read_recordings([tmp_path / "counted.json"], DEVICE)
    for text in ("[]", "{", '{"kind": "x"}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(StatsNetError):
            read_recordings([tmp_path / "bad.json"], DEVICE)
    (tmp_path / "et.json").write_text('{"schema": "1.1.1-chakra.0.0.4", "nodes": []}')
    with pytest.raises(FileFormatError, match="has no times"):
        read_recordings([tmp_path / "et.json"], DEVICE)


def test_a_recording_names_its_device(tmp_path: Path) -> None:
    golden = load_signature(GOLDEN)
    measured = golden.measurements[0]
    gpu = replace(measured, environment={**measured.environment, "device_name": "NVIDIA H100 80GB HBM3"})
    save_signature(tmp_path / "h100.json", replace(golden, measurements=(gpu,)))
    read = read_recordings([tmp_path / "h100.json"], "z80")
    assert {device for row in read.rows for device in row.time_s} == {"nvidia-h100-sxm"}
    assert not read.notes
    assert is_known("AMD Instinct MI300X VF") and canonical_name("AMD Instinct MI300X VF") == "amd-mi300x"
    assert not is_known("AMD Radeon Graphics")
