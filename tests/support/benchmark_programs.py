"""Benchmarks as programs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.console import start
from statsnet.measure.device_lock import LOCKS

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a program came to."""

    returncode: int
    stdout: str
    stderr: str


Program = Callable[..., Done]


@pytest.fixture
def run_program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    """Runs a benchmark, by its path in benchmarks/, as from the root of the repository, but in this process: one of its
    own would import torch first."""

    def run(program: str, *arguments: str | Path) -> Done:
        module = importlib.import_module(f"benchmarks.{program.removesuffix('.py').replace('/', '.')}")
        monkeypatch.setattr(sys, "argv", [program, *map(str, arguments)])
        monkeypatch.setattr(LOCKS, "tell", LOCKS.tell)
        monkeypatch.chdir(ROOT)
        with pytest.raises(SystemExit) as end:
            start(module.main)
        said = capsys.readouterr()
        return Done(returncode=int(end.value.code or 0), stdout=said.out, stderr=said.err)

    return run
