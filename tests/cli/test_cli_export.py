"""`statsnet export`: what each subject becomes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_support import GOLDEN, ROOT, Cli, write_proxy

from statsnet.cli import main
from statsnet.exports.scaling import USUAL_MACS, USUAL_QUANTUM
from statsnet.signatures.storage import load_signature

MIX = "recsys/dlrm:0.5,cv/resnet50:0.5"


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_a_mix_goes_to_a_simulator(cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("export", "--mix", MIX, "--format", "scalesim", "--layers", "scaled", "--macs", "2M", "-o")
    done = cli(*arguments, "sim")
    assert done.returncode == 0, done.stderr
    assert "recsys/dlrm:0.5,cv/resnet50:0.5" in done.stdout and "scaled layer" in done.stdout
    assert "not preserved" in done.stdout and "aten._embedding_bag.default" in done.stdout
    assert done.stdout.endswith("written to sim\n")
    assert {"manifest.json", "left-out.csv", "repeats.csv", "sample.cfg", "gemm.csv"} <= files(here / "sim").keys()
    monkeypatch.chdir(here)
    assert main([*arguments, "again"]) == 0  # the same command gives the same bytes
    assert files(here / "again") == files(here / "sim")


def test_a_signature_alone_can_be_exported_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(GOLDEN), "--format", "chakra", "-o", "et", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["format"] == "chakra" and data["unit"].startswith("one ") and "trace.json" in data["files"]
    assert main(["import", "et/trace.json", "-o", "again.json"]) == 0
    again = load_signature(tmp_path / "again.json")
    assert again.calls_per_step == data["totals"]["calls"] - sum(row["repeats"] for row in data["left_out"])


def test_a_proxy_is_counted_from_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    proxy = ROOT / "generated" / "recsys-cv-inference"
    assert main(["export", str(proxy), "--format", "manifest", "-o", "layers"]) == 0
    manifest = json.loads((tmp_path / "layers" / "manifest.json").read_text())
    towers = json.loads((proxy / "spec.json").read_text())["towers"]
    blocks = [block for tower in towers for block in tower["blocks"]]
    chained = sum(len(block["config"]["kernels"]) for block in blocks if block["kind"] == "conv_chain")
    convolutions = sum(x["repeats"] for x in manifest["layers"] if x["operator"] == "aten.convolution.default")
    assert convolutions == chained + sum(block["kind"] in ("conv", "deconv") for block in blocks)
    assert manifest["unit"] == "one inference step"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--format", "c", "-o", "x"), "give either a proxy or a signature, or --mix"),
        ((str(GOLDEN), "--mix", MIX, "--format", "c", "-o", "x"), "both were given"),
        ((str(GOLDEN), "--format", "scalesin", "-o", "x"), "did you mean scalesim?"),
        ((str(GOLDEN), "--format", "c", "-o", "x", "--macs", "5M"), "--macs needs sampled or scaled layers"),
        ((str(GOLDEN), "--format", "c", "-o", "x", "--layers", "scaled", "--macs", "many"), "'many' is not a count"),
        ((str(GOLDEN), "--format", "c", "-o", "x", "--bit-widths"), "--bit-widths does not fit"),
        (("--mix", "cv/no_such:1", "--format", "c", "-o", "x"), "no_such"),
        (("cv/resnet50", "--format", "c", "-o", "x"), "--mix cv/resnet50:1"),
        ((str(GOLDEN), "--format", "c", "-o", "x", "--mode", "training"), "--mode is for mixes"),
        (("--mix", MIX, "--format", "c", "-o", "x", "--layers", "scaled", "--macs", "10"), "as little as 10"),
    ],
)
def test_bad_requests_are_one_sentence(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["export", *arguments]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.out == "" and not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["export", "synthesize"])
def test_help_names_the_usual_quantum_and_budget(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands write them out, as importing them takes long."""
    assert main([command, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"(default {USUAL_QUANTUM})" in text
    if command == "export":
        assert f"at most {USUAL_MACS // 10**6}M or" in text


def test_bad_files_and_folders_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text("{")
    assert main(["export", "bad.json", "--format", "manifest", "-o", "x"]) == 1
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    assert main(["export", str(GOLDEN), "--format", "manifest", "-o", "mine"]) == 1
    assert "holds other files" in capsys.readouterr().err
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_a_changed_network_does_not_run_unless_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    proxy = write_proxy(tmp_path / "p")
    arguments = ("export", "p", "--format", "manifest", "-o")
    assert main([*arguments, "before"]) == 0
    program = "import pathlib\npathlib.Path('it-ran').touch()\n"
    (proxy / "network.py").write_text(program + (proxy / "network.py").read_text().replace("from __future__", "# from"))
    capsys.readouterr()
    assert main([*arguments, "after"]) == 0
    assert "is not what spec.json describes, so it is not run" in capsys.readouterr().err
    assert not (tmp_path / "it-ran").exists()
    assert files(tmp_path / "after") == files(tmp_path / "before")
    assert main([*arguments, "trusted", "--trust"]) == 0
    assert "it runs as a program of whoever wrote it" in capsys.readouterr().err
    assert (tmp_path / "it-ran").exists()
