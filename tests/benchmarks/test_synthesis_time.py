"""The program that times synthesis: its cases, its table, and a whole run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import csv_tables, synthesis_time
from benchmarks.timing.cases import CASES, GROWTH, HALF_BUSY, Run, cases, profile_arguments, synthesize_arguments
from benchmarks.timing.table import COLUMN_OF, SynthesisRow, markdown, synthesis_row
from statsnet import workloads
from statsnet.cli.app import statsnet
from statsnet.errors import StatsNetError
from statsnet.signatures.mix_request import parse_mix
from statsnet.synthesis import expected_time

ROOT = Path(__file__).parents[2]


def test_every_stage_of_the_command_has_a_column() -> None:
    stages = {value for name, value in vars(expected_time).items() if name.isupper() and isinstance(value, str)}
    assert COLUMN_OF.keys() == stages - {expected_time.SEARCH}


def row(seconds: float, *, run: str = "demo", repeat: int = 1) -> SynthesisRow:
    """A quarter of the time until the command begins, and half of it for blocks."""
    summary = {"category_total_variation": 0.018, "flops_per_s_error": -0.021}
    told = {"stages_s": {"blocks measured": 0.5 * seconds}, "total_s": 0.75 * seconds, "fit": {"summary": summary}}
    return synthesis_row(
        seconds, told, run=run, mix="a:1", mode="inference", effort=None, repeat=repeat, peak_bytes=2_000_000_000
    )


def test_the_table_has_seconds_memory_and_fit() -> None:
    shown = markdown([row(100.0), row(140.0, repeat=2), row(8.0, run="suite")])
    cells = ["120 (100 to 140)", "30 (25 to 35)", "0 (0 to 0)", "0 (0 to 0)", "60 (50 to 70)"]
    assert f"| demo | {' | '.join(cells)} |" in shown
    assert "| 30 (25 to 35) | 2000 |" in shown
    assert "| suite | 1.8 | – | -2.1 | – |" in shown


def test_growth_stands_for_cases_of_more_and_more_members() -> None:
    assert cases("suite,growth") == ["suite", "two", "ten", "all"]
    sizes = {name: len(parse_mix(CASES[name][0].mix)) for name in ("two", "ten", "all")}
    assert sizes == {"two": 2, "ten": 10, "all": len(workloads.names())}
    assert set(GROWTH) < set(CASES)
    with pytest.raises(ValueError, match="no case is called 'three'; there are demo, "):
        cases("demo,three")


@pytest.mark.parametrize("run", [run for runs in CASES.values() for run in runs], ids=lambda run: run.name)
def test_every_run_is_a_command_that_statsnet_takes(run: Run, tmp_path: Path) -> None:
    made = synthesize_arguments(run, mode="training", effort=None, profiles=tmp_path, output=tmp_path / "proxy")
    for words in (made, profile_arguments(run.mix, mode="training", profiles=tmp_path)):
        command = statsnet.commands[words[0]]
        with command.make_context(words[0], list(words[1:])) as context:
            assert (context.params["mix"], context.params["mode"]) == (run.mix, "training")
    assert "--effort" not in made
    quick = synthesize_arguments(run, mode="training", effort="low", profiles=None, output=tmp_path)
    assert quick[-2:] == ["--effort", "low"]


def test_a_neighbour_ends_with_the_program_that_started_it() -> None:
    starts = f"import os, subprocess, sys; subprocess.Popen([sys.executable, '-c', {HALF_BUSY!r}, str(os.getpid())])"
    # Returns once the neighbour, too, has closed the pipe.
    assert subprocess.run([sys.executable, "-c", starts], capture_output=True).returncode == 0


PROGRAM = """
import json, os, sys
from pathlib import Path
word, *words = sys.argv[1:]
told = Path(words.pop().removeprefix("--json=")) if word == "synthesize" else None
options = dict(zip(words[::2], words[1::2]))
kept = Path(os.environ["STATSNET_CACHE"], "kept")
if "broken" in os.environ:
    sys.exit("statsnet: it is broken")
figures = {"category_total_variation": float(kept.exists()), "flops_per_s_error": float("--effort" in options)}
stages = {"solving" if kept.exists() else "members profiled": 0.001}
kept.parent.mkdir(parents=True, exist_ok=True)
kept.touch()
if told:
    told.write_text(json.dumps({"stages_s": stages, "total_s": 0.002, "fit": {"summary": figures}}))
"""
"""A program that keeps something, like statsnet, and whose fit says whether it had something kept, or an --effort."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with such a program."""
    root = tmp_path / "checkout"
    program = root / "statsnet" / "__main__.py"
    program.parent.mkdir(parents=True)
    program.with_name("__init__.py").touch()
    program.write_text(PROGRAM)
    return root


def call(monkeypatch: pytest.MonkeyPatch, checkout: Path, *words: str) -> tuple[int, list[SynthesisRow]]:
    table = checkout.parent / "times.csv"
    work = ["--work", str(checkout.parent / "work"), "-o", str(table)]
    monkeypatch.setattr(synthesis_time, "ROOT", checkout)
    monkeypatch.setattr(sys, "argv", ["synthesis_time.py", *work, *words])
    code = synthesis_time.main()
    return code, csv_tables.read(table, SynthesisRow) if table.exists() else []


def test_each_repeat_begins_with_a_cache_of_its_own(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, rows = call(monkeypatch, checkout, "--cases", "demo,two", "--repeats", "2", "--effort", "low")
    assert code == 0
    of_demo, of_two = rows[:4], rows[4:]
    assert [r.repeat for r in of_demo] == [1, 1, 2, 2] and [r.repeat for r in of_two] == [1, 2]
    assert [(r.run, r.category_total_variation) for r in of_demo] == [("demo", 0.0), ("demo, all kept", 1.0)] * 2
    assert {r.flops_per_s_error for r in rows} == {1.0}
    assert all(r.profiling_s > 0 or r.solving_s > 0 for r in rows)
    assert markdown(rows) in capfd.readouterr().out


def test_a_run_that_fails_is_named_and_is_no_row(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("broken", "")
    assert call(monkeypatch, checkout, "--cases", "demo,neighbour") == (1, [])
    shown = capfd.readouterr().err
    assert shown.count("statsnet: it is broken") == 2
    assert "demo, all kept" not in shown
    with pytest.raises(StatsNetError, match=r"not all of 'recsys/dlrm:0.5,cv/resnet50:0.5' could be profiled"):
        call(monkeypatch, checkout, "--cases", "two")


def test_signatures_from_elsewhere_are_those_of_one_environment(tmp_path: Path) -> None:
    for name in ("cpu-first", "cpu-second", "meta"):
        (tmp_path / "database" / name).mkdir(parents=True)
    folder = synthesis_time.of_another_environment(tmp_path / "database", tmp_path / "elsewhere")
    assert [path.name for path in folder.iterdir()] == ["cpu-first"]
