"""What the fuzzer of the command line changes, it puts back: files, the environment, the folder that it is in."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import statsnet
from benchmarks.fuzzing import commands
from statsnet.errors import StatsNetError
from statsnet.measure.process import MeasuringProcess


def told(path: Path, line: str, **more: Any) -> Path:
    path.write_text(json.dumps({"words": line.split(), **more}))
    return path


def files_in(folder: Path) -> dict[str, bytes]:
    names = (path for path in folder.rglob("*") if path.is_file() and not path.is_fifo())
    return {str(path.relative_to(folder)): path.read_bytes() for path in names}


def of_this_process() -> tuple[Any, ...]:
    patched = (statsnet.__file__, tempfile.tempdir, MeasuringProcess.__enter__, subprocess.Popen, sys.stdin)
    return (dict(os.environ), os.getcwd(), *patched)


@pytest.mark.parametrize(
    ("line", "more"),
    [
        ("coarsen a.json --level coarse -o b.json", {}),  # writes over a file
        ("coarsen a.json --level coarse -o new.json", {}),
        ("list", {"damaged": "a.json", "content": "{"}),
        ("coarsen a.json --level coarse -o table.csv", {"damaged": "table.csv", "content": "x"}),
        ("export a.json --format manifest -o empty", {}),
        ("show a.json --no-such-option", {}),
    ],
)
def test_the_next_line_finds_all_as_it_was(line: str, more: dict[str, str], tmp_path: Path) -> None:
    before = of_this_process()
    commands.run_line(told(tmp_path / "line.json", "list profiles"))
    here = tmp_path / "here" / "work"
    first = files_in(here)
    with contextlib.suppress(StatsNetError):  # that it is refused is as good
        commands.run_line(told(tmp_path / "line.json", line, **more))
    assert of_this_process() == before
    assert files_in(commands._filled(here)) == first


def test_the_lines_do_change_files(tmp_path: Path) -> None:
    """Else the test above would say nothing."""
    commands.run_line(told(tmp_path / "line.json", "list profiles"))
    here = tmp_path / "here" / "work"
    first = files_in(here)
    commands.run_line(told(tmp_path / "line.json", "coarsen a.json --level coarse -o b.json"))
    assert files_in(here)["b.json"] != first["b.json"]
