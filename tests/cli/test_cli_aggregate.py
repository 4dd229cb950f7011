"""`statsnet aggregate`, what becomes of an aggregate, and an audit of folders."""

from __future__ import annotations

import dataclasses
import gzip
from pathlib import Path
from typing import Any

import pytest
from cli_support import GOLDEN, read

from statsnet.cli.app import main
from statsnet.signatures.database import ProfilesDB, pack
from statsnet.signatures.member_key import key_of
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.model import Signature, Skew
from statsnet.signatures.storage import load_signature, save_signature

SKEW = Skew(distinct_share=0.5, top1pct_share=0.25, zipf=1.0)
_GOLDEN = load_signature(GOLDEN)
GIVEN = dataclasses.replace(
    _GOLDEN, clusters=tuple(dataclasses.replace(c, skew=c.skew and SKEW) for c in _GOLDEN.clusters)
)


def write(path: Path, **changes: Any) -> Signature:
    signature = dataclasses.replace(GIVEN, workload=None, **changes)
    save_signature(path, signature)
    return signature


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """a.json, b.json and c.json are of one machine, mode and dtype."""
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate("abc"):
        calls = tuple(dataclasses.replace(c, calls=c.calls + number) for c in GIVEN.clusters)
        write(tmp_path / f"{name}.json", clusters=calls)
    return tmp_path


def test_an_aggregate_is_used_like_any_signature(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["aggregate", "a.json:0.3", "b.json:0.7", "-o", "fleet.json"]) == 0
    assert "a mean step of 2 signatures" in capsys.readouterr().out
    assert read(files / "fleet.json")["aggregated"] == 2
    assert main(["aggregate", "fleet.json:1", "c.json:1", "-o", "again.json"]) == 0
    assert load_signature(files / "again.json").aggregated == 3
    for words in (
        ["show", "fleet.json"],
        ["audit", "fleet.json"],
        ["coarsen", "fleet.json", "--level", "coarse", "-o", "coarse.json"],
        ["audit", "coarse.json"],
        ["report", "fleet.json", "-o", "fleet.html"],
        ["export", "fleet.json", "--format", "manifest", "-o", "exported"],
        ["characterize", "fleet.json", "again.json"],
    ):
        assert main(words) == 0, (words, capsys.readouterr().err)
    texts = (files / "fleet.html").read_text() + (files / "fleet.json").read_text()
    assert "a.json" not in texts and "b.json" not in texts
    mix = resolve_mix("fleet.json:1,c.json:1", GIVEN.mode, ProfilesDB(files / "none"))
    assert [m.weight for m in mix.members] == [0.5, 0.5]
    assert mix.members[0].measurement is not None


def test_an_aggregate_goes_to_stdout(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["aggregate", "a.json:1", "b.json:1", "--json"]) == 0
    assert '"aggregated":2' in capsys.readouterr().out.replace(" ", "")
    assert sorted(p.name for p in files.iterdir()) == ["a.json", "b.json", "c.json"]


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["a.json:1", "-o", "x.json"], "at least two signatures", 2),
        (["a.json:0", "b.json:1", "-o", "x.json"], "'0' is not a weight for 'a.json'", 2),
        (["a.json", "b.json:1", "-o", "x.json"], "'a.json' has no weight", 2),
        (["a.json:1", "a.json:1", "-o", "x.json"], "'a.json' stands twice", 2),
        (["a.json:1", "./a.json:1", "-o", "x.json"], "'a.json' and './a.json' are one signature", 2),
        (["a.json:1", "copy.json:1", "-o", "x.json"], "are one signature", 2),
        (["a.json:1", "mode.json:1", "-o", "x.json"], "an aggregate has one mode", 2),
        (["a.json:1", "dtype.json:1", "-o", "x.json"], "an aggregate has one dtype", 2),
        (["a.json:1", "counted.json:1", "-o", "x.json"], "'counted.json' was measured nowhere", 2),
        (["a.json:1", "moved.json:1", "-o", "x.json"], "no environment in which all", 2),
        (["a.json:1", "none.json:1", "-o", "x.json"], "'none.json' does not exist", 1),
        (["a.json:1", "b.json:1", "-o", "b.json"], "would be overwritten", 2),
        (["a.json:1", "b.json:1", "-o", "-"], "'-' is not a file", 2),
        (["a.json:1", "b.json:1"], "no output was given", 2),
    ],
)  # fmt: skip
def test_what_is_refused(
    files: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str, code: int
) -> None:
    save_signature(files / "copy.json", load_signature(files / "a.json"))
    write(files / "mode.json", mode="training" if GIVEN.mode == "inference" else "inference")
    write(files / "dtype.json", dtype="bfloat16")
    write(files / "counted.json", measurements=())
    environment = {**GIVEN.measurements[0].environment, "threads": 77}
    write(files / "moved.json", measurements=(dataclasses.replace(GIVEN.measurements[0], environment=environment),))
    assert main(["aggregate", *words]) == code
    said = capsys.readouterr()
    assert message in said.err and "Traceback" not in said.err and said.out == ""
    assert not (files / "x.json").exists()


def test_a_folder_is_audited_with_all_that_is_in_it(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "db" / "packed").mkdir(parents=True)
    write(files / "db" / "packed" / "own.inference.json")
    pack(files / "db" / "packed")
    assert main(["audit", "db"]) == 0, capsys.readouterr().out
    assert "own.inference.json" in capsys.readouterr().out
    key_of(files / "db" / "own.json")
    assert main(["audit", "db"]) == 1
    assert "keep it to yourself" in " ".join(capsys.readouterr().out.split())


def test_a_device_is_audited(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shipped = Path(__file__).parents[2] / "profiles_db" / "devices"
    device = next(iter(sorted(shipped.glob("*.json.gz"), key=lambda p: p.stat().st_size)))
    assert main(["audit", str(device)]) == 0
    assert "statsnet.device" in capsys.readouterr().out
    (files / "deep.json.gz").write_bytes(gzip.compress(b"[" * 100_000))
    assert main(["audit", "deep.json.gz"]) == 1
    assert "unexpected" not in capsys.readouterr().err


def test_exact_skew_is_found(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exact = dataclasses.replace(SKEW, distinct_share=0.123456)
    write(files / "skew.json", clusters=(dataclasses.replace(GIVEN.clusters[0], skew=exact), *GIVEN.clusters[1:]))
    assert main(["audit", "skew.json"]) == 1
    assert "more than 2 digits" in " ".join(capsys.readouterr().out.split())


def test_a_home_that_is_not_there(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["aggregate", "~no-such-user/a.json:1", "b.json:1", "-o", "fleet.json"]) in (1, 2)
    error = capsys.readouterr().err
    assert "~no-such-user/a.json" in error and "bug" not in error
