"""The fidelity program: its options, its mixes, and the tables that it wrote before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from test_fidelity_table import row

from benchmarks.csv_tables import table_text
from benchmarks.fidelity import _options, print_kept
from benchmarks.fidelity_table import FidelityRow
from benchmarks.suites import CORE, MIXES, mix_name, mix_text, spelled_out
from statsnet import workloads
from statsnet.signatures.mix_request import parse_mix


def options(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    monkeypatch.setattr(sys, "argv", ["fidelity.py", *words])
    return _options()


@pytest.mark.parametrize(("option", "text"), [("--ways", "random,nobody"), ("--compressions", "20,many")])
def test_a_word_that_is_none_of_them_ends_it_at_once(
    option: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        options(monkeypatch, option, text)
    assert text.rpartition(",")[2] in capsys.readouterr().err


def test_mixes_have_names_and_lists_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--compressions", "20,usual", "--ways", "random,subset", "--mixes", "vision", "rl:1"]
    read = vars(options(monkeypatch, *words))
    assert read["compressions"] == [20.0, None]
    assert read["ways"] == ["random", "subset"]
    assert read["mixes"] == [MIXES["vision"], "rl:1"]


def test_a_newer_table_counts_and_some_mixes_and_settings_can_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, now = tmp_path / "before.csv", tmp_path / "now.csv"
    before.write_text(table_text(FidelityRow, [row("a", "ours", 0.2), row("a", "other", 0.3)]))
    rows = [row("a", "ours", 0.1), row("b", "ours", 0.9), row("a", "ours", 0.9, setting="x")]
    now.write_text(table_text(FidelityRow, rows))
    print_kept([before, now], ["a"], "threads=1,onednn=sse41")
    shown = capsys.readouterr().out
    assert "| inference, a: ours | 1 | 10.0 %" in shown
    assert "| inference, a: other | 1 | 30.0 %" in shown
    assert "90.0" not in shown
    with pytest.raises(SystemExit, match="nothing of these mixes and settings"):
        print_kept([now], ["c"], None)


@pytest.mark.parametrize(("name", "mix"), MIXES.items())
def test_every_mix_names_workloads_that_there_are(name: str, mix: str) -> None:
    assert (mix_text(name), mix_name(mix)) == (mix, name)
    parsed = {part.name: part.weight for part in parse_mix(spelled_out(mix))}
    assert set(parsed) <= set(workloads.names())
    assert sum(parsed.values()) == pytest.approx(1.0)


def test_a_domain_s_weight_is_shared_by_its_core() -> None:
    parsed = {part.name: part.weight for part in parse_mix(spelled_out("core.recsys:1,cv/resnet50:3"))}
    assert parsed["cv/resnet50"] == pytest.approx(0.75)
    assert [parsed[f"recsys/{name}"] for name in CORE["recsys"]] == pytest.approx([1 / 12] * 3)
    assert spelled_out("cv:2") == "cv:1.0"
    assert mix_text("cv:2") == mix_name("cv:2") == "cv:2"
