"""`statsnet import`: a recording on the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recording_files import FLOPS, LINEAR, launch, operator, step, training_step, write

from statsnet.cli.app import main
from statsnet.signatures.storage import load_signature


def test_a_recording_is_imported_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write(tmp_path / "trace.json.gz", training_step())
    out = tmp_path / "signature.json"
    assert main(["import", str(trace), "-o", str(out)]) == 0
    said = capsys.readouterr()
    assert "have no launch in the recording" in said.err
    assert "NVIDIA H100 80GB HBM3 (from a recording)" in said.out
    signature = load_signature(out)
    assert signature.measurements[0].source == "recording"
    assert main(["show", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "the recording does not hold it" in shown
    assert "FLOPs and bytes not known:" in shown and "cost formula" not in shown


def linear_nodes(first: int, number: int, rows: int) -> list[dict[str, Any]]:
    """A step with one product, in an execution trace."""
    shapes = [[rows, 128], [128, 256]]
    tensors = [[i, i, 0, m * n, 4, "cuda:0"] for i, (m, n) in enumerate(shapes, 1)]
    return [
        {"id": first, "name": f"ProfilerStep#{number}", "ctrl_deps": 1},
        {"id": first + 1, "name": "aten::mm", "ctrl_deps": first,
         "inputs": {"values": tensors, "shapes": shapes, "types": ["Tensor(float)"] * 2}},
    ]  # fmt: skip


def test_an_execution_trace_is_imported_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, out = tmp_path / "et.json", tmp_path / "signature.json"
    trace.write_text(json.dumps({"schema": "1.1.1", "nodes": [*linear_nodes(5, 2, 64), *linear_nodes(9, 3, 32)]}))
    assert main(["import", str(trace), "-o", str(out)]) == 0
    said = capsys.readouterr()
    assert "has no times" in said.err and "ProfilerStep 2 was read" in said.err
    assert "counts only" in said.out
    assert load_signature(out).flops_per_step == FLOPS
    assert main(["import", str(trace), "--step", "3", "-o", str(out)]) == 0
    assert load_signature(out).flops_per_step == FLOPS / 2
    assert main(["show", str(out)]) == 0


def test_an_onnx_model_is_imported_with_its_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx = pytest.importorskip("onnx")
    real = onnx.TensorProto.FLOAT
    values = [onnx.helper.make_tensor_value_info(n, real, s) for n, s in (("x", ["rows", 128]), ("y", ["rows", 256]))]
    weight = onnx.helper.make_tensor("w", real, [128, 256], bytes(4 * 128 * 256), raw=True)
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"], name="secret_layer")
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "secret", values[:1], values[1:], [weight]))
    onnx.save(model, tmp_path / "model.onnx")
    out = tmp_path / "signature.json"
    assert main(["import", str(tmp_path / "model.onnx"), "--dim", "rows=64", "-o", str(out)]) == 0
    assert "has no times" in capsys.readouterr().err
    assert load_signature(out).flops_per_step == FLOPS
    assert "secret" not in out.read_text()
    assert main(["import", str(tmp_path / "model.onnx"), "-o", str(out)]) == 0
    assert "--dim NAME=SIZE (rows)" in capsys.readouterr().err
    assert main(["import", str(tmp_path / "model.onnx"), "--dim", "batch=2", "-o", str(out)]) == 2
    assert "its named dimensions are rows" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["-o", "--json"])
@pytest.mark.parametrize("read", ["trace.json", "capture.json", "et.json", "ncu.csv", "link.json"])
def test_no_input_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], read: str, option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("trace.json"), training_step())
    Path("link.json").symlink_to("trace.json")
    for name in ("capture.json", "et.json", "ncu.csv"):
        Path(name).write_text("kept")
    before = Path(read).read_bytes()
    files = ["--capture", "capture.json", "--execution-trace", "et.json", "--ncu", "ncu.csv"]
    assert main(["import", "trace.json", *files, f"{option}={read}" if option == "--json" else f"-o{read}"]) == 2
    assert "would be overwritten" in capsys.readouterr().err
    assert Path(read).read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["nothing.json", "-o", "x.json"], "there is no file 'nothing.json'", 1),
        (["trace.json"], "no output was given", 2),
        (["trace.json", "-o", "x.json", "--step", "9"], "has no step 9", 2),
        (["kernels.json", "-o", "x.json"], "holds no operators", 1),
        (["model.onnx", "-o", "x.json", "--step", "1"], "--step does not fit", 2),
        (["et.json", "-o", "x.json", "--ncu", "trace.json"], "--ncu does not fit", 2),
        (["trace.json", "-o", "x.json", "--dim", "rows=2"], "--dim does not fit", 2),
        (["model.onnx", "-o", "x.json", "--dim", "rows"], "is no size", 2),
        (["model.onnx", "-o", "x.json", "--dim", "rows=0"], "is no size", 2),
        (["folder", "-o", "x.json"], "it is a folder", 1),
        (["pipe", "-o", "x.json"], "it is a pipe", 1),
        (["trace.json", "-o", "kernels.json/x.json"], "is not a folder", 2),
        (["trace.json", "-o", "x.json", "--ncu", "et.json"], "is no table of Nsight Compute", 1),
        (["trace.json", "-o", "x.json", "--execution-trace", "trace.json"], "is no execution trace", 1),
    ],
)
def test_bad_input_is_one_sentence(
    failing: Callable[..., str], here: Path, arguments: list[str], words: str, code: int
) -> None:
    write(here / "trace.json", [step(1, 1000, 100), *LINEAR, *launch(3, 1030, "gemm", 1035, 40)])
    write(here / "kernels.json", launch(1, 10, "gemm", 20, 5))
    (here / "folder").mkdir()
    os.mkfifo(here / "pipe")
    (here / "et.json").write_text('{"schema": "1", "nodes": []}')
    (here / "model.onnx").write_bytes(b"")
    assert words in failing("import", *arguments, code=code)


@pytest.mark.parametrize("where", ["files", "profiles"])
@pytest.mark.parametrize("command", ["map", "characterize"])
def test_analyses_call_imported_signatures_after_their_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, where: str
) -> None:
    folder = tmp_path / "h100" / "own"
    folder.mkdir(parents=True)
    trace, names = write(tmp_path / "trace.json", training_step()), ("ranker", "tower", "encoder")
    files = [folder / f"{name}.training.json" for name in names]
    assert main(["import", str(trace), "-o", str(files[0])]) == 0
    for other in files[1:]:
        other.write_bytes(files[0].read_bytes())
    given = [str(file) for file in files] if where == "files" else ["--profiles", str(tmp_path), "--mode", "training"]
    capsys.readouterr()
    assert main([command, *given, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    called = [f"{name}.training" if where == "files" else f"own/{name}" for name in names]
    assert sorted(one["name"] for one in data["workloads"]) == sorted(called)
    assert data["mode"] == "training"


def test_files_that_cannot_be_compared_are_not_analysed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("gpu.json"), training_step())
    write(Path("cpu.json"), [operator("aten::relu", 1000, 50, [[8, 8]], ["float"], [""])])
    for trace, mode, out in (("gpu", "training", "a"), ("gpu", "inference", "b"), ("cpu", "inference", "c")):
        assert main(["import", f"{trace}.json", "--mode", mode, "-o", f"{out}.json"]) == 0
    for given, said in [
        (["a.json", "b.json"], "is of inference"),
        (["b.json", "c.json"], "in another environment"),
        (["a.json", "--mode", "inference"], "--mode is inference"),
        (["a.json", "resnet50"], "were both given"),
        (["a.json", "--profiles", "."], "were both given"),
    ]:
        assert main(["characterize", *given]) == 2
        assert said in capsys.readouterr().err
