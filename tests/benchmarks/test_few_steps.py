"""How far a few profiled steps are from many."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.diagnostics import few_steps
from benchmarks.diagnostics.few_steps import of_faster_steps, of_faster_times, points
from benchmarks.diagnostics.profiled_steps import ProfiledSteps

TINY = """
import torch

def factory():
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()), (torch.randn(32, 64),)
"""


def test_where_each_step_disturbs_another_operator_its_own_times_tell_most() -> None:
    quiet = ProfiledSteps(classes=["a", "b", "c"], steps_s=[4.0] * 3, operators_s=[[1.0, 1.0, 2.0]] * 3)
    slow = [[5.0, 1.0, 2.0], [1.0, 5.1, 2.0], [1.0, 1.0, 6.2]]
    disturbed = ProfiledSteps(classes=quiet.classes, steps_s=[8.0, 8.1, 8.2], operators_s=slow)
    assert points(of_faster_times, disturbed, slice(None), quiet) == pytest.approx(0.0)
    assert points(of_faster_steps, disturbed, slice(None), quiet) == pytest.approx(100 * (0.5 - 2.0 / 8.05))


def test_the_program_compares_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny.py").write_text(TINY)
    options = ["--steps", "3", "--processes", "2", "--few", "2"]
    monkeypatch.setattr(sys, "argv", ["few_steps.py", f"{tmp_path / 'tiny.py'}:factory", *options])
    few_steps.main()
    header, _, *lines = capsys.readouterr().out.splitlines()
    assert header.startswith("| steps |") and [line.split(" | ")[0] for line in lines] == ["| 2", "| 3"]
