"""`statsnet cover`: a new workload against a mix, and against a proxy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cli_support import GOLDEN, ROOT, write_proxy

from statsnet.cli import main
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.storage import save_signature

PROXY = ROOT / "generated" / "recsys-cv-inference"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(GOLDEN, tmp_path / "s.json")
    entry = next(e for e in ProfilesDB().find("cv/resnet50", "inference"))
    save_signature(tmp_path / "resnet50.json", entry.load())
    return tmp_path


def covered(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main(["cover", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_workload_covers_itself(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = covered(capsys, "s.json:1", "s.json")
    assert found["distances"] == {"category": 0.0, "kernel_class": 0.0, "phase": 0.0}
    assert found["missing_share"] == 0
    assert found["verdict"].startswith("s.json:1 stands for it")


def test_a_domain_tells_the_nearest_and_what_is_missing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    near, far = covered(capsys, "cv", "resnet50.json"), covered(capsys, "nlp/bert_base", "resnet50.json")
    assert near["nearest"][0]["name"] == "cv/resnet50"
    assert near["nearest"][0]["kernel_class"] == pytest.approx(0.0, abs=1e-9)
    assert near["missing_share"] == 0
    assert far["missing_share"] > 0.5
    assert far["distances"]["category"] > near["distances"]["category"]
    assert "nothing in nlp/bert_base stands for" in far["verdict"]
    assert main(["cover", "cv", "resnet50.json"]) == 0
    assert "The nearest workloads" in capsys.readouterr().out


def test_a_proxy(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = covered(capsys, str(PROXY), "resnet50.json")
    assert 0 < found["distances"]["kernel_class"] < 1
    assert found["nearest"] == []


@pytest.mark.parametrize(
    ("subject", "new", "code", "text"),
    [
        ("cv", "nothing.json", 1, "nothing.json"),
        ("cv9", "resnet50.json", 2, "cv9"),
        ("p", "resnet50.json", 2, "has no fit.json"),
        (".", "resnet50.json", 2, "is not a proxy's folder"),
    ],
)
def test_what_cover_refuses(
    here: Path, subject: str, new: str, code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_proxy(here / "p")
    assert main(["cover", subject, new]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert text in said.err
