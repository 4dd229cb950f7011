"""`statsnet import`: a recording on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_support import ROOT  # noqa: F401 (puts the helpers on the path)
from recording_files import LINEAR, launch, step, training_step, write

from statsnet.cli.app import main
from statsnet.signatures.storage import load_signature


def test_a_recording_is_imported_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write(tmp_path / "trace.json.gz", training_step())
    out = tmp_path / "signature.json"
    assert main(["import", str(trace), "-o", str(out)]) == 0
    said = capsys.readouterr()
    assert "have no launch in the recording" in said.err
    assert "NVIDIA H100 80GB HBM3 (one step of a recording)" in said.out
    signature = load_signature(out)
    assert signature.measurements[0].source == "recording"
    assert main(["show", str(out)]) == 0
    assert "the recording does not hold it" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["nothing.json", "-o", "x.json"], "there is no file 'nothing.json'", 1),
        (["trace.json"], "no output was given", 2),
        (["trace.json", "-o", "x.json", "--step", "9"], "has no step 9", 2),
        (["kernels.json", "-o", "x.json"], "holds no operators", 1),
        (["model.onnx", "-o", "x.json", "--step", "1"], "--step does not fit", 2),
        (["et.json", "-o", "x.json", "--ncu", "trace.json"], "--ncu does not fit", 2),
        (["trace.json", "-o", "x.json", "--ncu", "et.json"], "is no table of Nsight Compute", 1),
        (["trace.json", "-o", "x.json", "--execution-trace", "trace.json"], "is no execution trace", 1),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str],
    words: str, code: int,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "trace.json", [step(1, 1000, 100), *LINEAR, *launch(3, 1030, "gemm", 1035, 40)])
    write(tmp_path / "kernels.json", launch(1, 10, "gemm", 20, 5))
    Path("et.json").write_text('{"schema": "1", "nodes": []}')
    Path("model.onnx").write_bytes(b"")
    assert main(["import", *arguments]) == code
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
    assert not Path("x.json").exists()
