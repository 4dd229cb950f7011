"""Kept tables: all are in the index, can be read, and are printed by the program that the index names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmark_programs import Program

from benchmarks.across.figures import AcrossRow
from benchmarks.breadth import Row as BreadthRow
from benchmarks.csv_tables import read, table_text
from benchmarks.drawn.table import UnseenRow
from benchmarks.fidelity_table import FidelityRow
from benchmarks.fit import FitRow
from benchmarks.fit_together import TogetherRow
from benchmarks.fuzz import FuzzRow
from benchmarks.killed import KilledRow
from benchmarks.moved import MovedRow
from benchmarks.presilicon import PresiliconRow
from benchmarks.scale import ScaleRow
from benchmarks.search_front import FrontRow
from benchmarks.slow_network import NetworkRow
from benchmarks.suites import MACHINES
from benchmarks.timing.table import SynthesisRow
from statsnet.errors import FileFormatError

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
ROWS = {
    "across_gpus.py": AcrossRow,
    "breadth.py": BreadthRow,
    "fidelity.py": FidelityRow,
    "fit.py": FitRow,
    "fit_together.py": TogetherRow,
    "fuzz.py": FuzzRow,
    "killed.py": KilledRow,
    "moved.py": MovedRow,
    "presilicon.py": PresiliconRow,
    "scale.py": ScaleRow,
    "search_front.py": FrontRow,
    "slow_network.py": NetworkRow,
    "synthesis_time.py": SynthesisRow,
    "unseen.py": UnseenRow,
}

FEWER = {"scale.py": ("--machines", "500", "--workloads", "50")}
"""Options of programs that would take seconds."""


def index() -> dict[Path, str]:
    """Table -> the program that prints it, from the README."""
    programs: dict[Path, str] = {}
    folder = RESULTS
    for line in (RESULTS / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            slug = re.match(r"## `(.+?)`", line)
            folder = RESULTS / slug[1] if slug else RESULTS
        elif entry := re.match(r"\| `(\S+\.csv)` \|.*?\| `(\S+\.py)` \|", line):
            programs[folder / entry[1]] = entry[2]
    return programs


def test_the_index_names_every_table_and_machine() -> None:
    assert index().keys() == {*RESULTS.rglob("*.csv")}
    assert {path.name for path in RESULTS.iterdir() if path.is_dir()} == MACHINES.keys()
    assert {path.suffix for path in RESULTS.rglob("*") if path.is_file()} == {".md", ".csv", ".json"}
    assert {path.parent.name for path in RESULTS.rglob("*.json")} == MACHINES.keys()


@pytest.mark.parametrize("path", index(), ids=lambda p: str(p.relative_to(RESULTS)))
def test_every_table_can_be_read_and_written_again(path: Path) -> None:
    rows = read(path, ROWS[index()[path]])
    assert rows
    assert table_text(ROWS[index()[path]], rows) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("program", ROWS)
def test_every_program_prints_its_tables(program: str, run_program: Program) -> None:
    path = next(path for path, named in index().items() if named == program)
    done = run_program(program, "--kept", path, *FEWER.get(program, ()))
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"\d", done.stdout)


def test_another_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(FileFormatError, match="its columns are a, b"):
        read(path, FitRow)
