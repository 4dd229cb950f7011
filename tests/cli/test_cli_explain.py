"""`statsnet explain` on a small proxy, measured for real."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_support import member, read, write_proxy
from synthesis_builders import small_signature

from statsnet.cli import main
from statsnet.signatures.storage import save_signature

NCF = member("recsys/ncf", 0.5, preset="tiny", batch=8)
QUICK = ("--rounds", "1", "--min-time", "20ms", "--json", "e.json")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_model_and_a_replay(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = small_signature(measurements=())
    save_signature(here / "db" / "own.json", own)
    write_proxy(here / "p", NCF, member("signature-12345678", 0.5, own.id))
    assert main(["explain", "p", "--profiles", "db", "--settings", "mkldnn=off", *QUICK]) == 0, capsys.readouterr().err
    data = read(here / "e.json")
    (setting,) = data["settings"]
    assert sum(row["error"] for row in setting["classes"]) == pytest.approx(setting["error"]["value"], abs=1e-6)
    assert sum(row["proxy"]["here"] for row in setting["classes"]) == pytest.approx(1.0)
    convolution = next(row for row in setting["classes"] if row["name"].startswith("convolution|"))
    assert convolution["suite"]["here"] == 0 < convolution["proxy"]["here"]
    assert [m["evidence"] for m in sorted(data["members"], key=lambda m: m["name"])] == ["model", "replay"]
    assert setting["blocks"][0]["block"]["kind"] == "conv"
    said = capsys.readouterr().out
    for text in ("By kernel class", "weaker evidence", "made in another environment"):
        assert text in said


def test_a_dtype_changes_the_operators_but_not_their_classes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_proxy(here / "p", {**NCF, "weight": 1.0})
    assert main(["explain", "p", "--settings", "dtype=bfloat16", *QUICK]) == 0, capsys.readouterr().err
    rows = {row["name"]: row for row in read(here / "e.json")["settings"][0]["classes"]}
    casts = rows["added by the setting: _to_copy"]
    assert casts["suite"]["here"] == casts["proxy"]["here"] == 0
    assert casts["suite"]["there"] > 0 < casts["proxy"]["there"]
    gemms = [row["suite"] for name, row in rows.items() if name.startswith("gemm|")]
    assert gemms and all(gemm["here"] > 0 < gemm["there"] for gemm in gemms)
    assert all("|float32|" in name for name in rows if "gemm" in name or "convolution" in name)
    assert not any("bfloat16" in name for name in rows)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["p"], "--settings"),
        (["nothing", "--settings", "threads=1"], "there is no such folder"),
        (["p", "--settings", "thread=1"], "did you mean threads"),
        (["p", "--settings", "graphs=cuda"], "statsnet validate compares"),
        (["p", "--settings", "threads=1"], "the member 'cv/x' cannot be measured"),
        (["p", "--settings", "threads=1", "--json=p/spec.json"], "would be overwritten"),
    ],
)
def test_what_can_not_be_explained(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    text: str,
) -> None:
    write_proxy(here / "p")
    assert main(["explain", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert text in said.err and "try:" in said.err, said.err
