"""The command line in a process of its own, in a folder of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_support import MODEL, Cli, command, environment


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The working directory of the commands; temporary files go beside it, so that none stays unseen."""
    folder = tmp_path / "here"
    folder.mkdir()
    (tmp_path / "tmp").mkdir()
    return folder


@pytest.fixture
def cli(here: Path) -> Cli:
    """Runs the command line in `here` and checks that it left no temporary file."""

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command(*arguments), capture_output=True, text=True,
            **{"cwd": here, "env": environment(here), **options},
        )  # fmt: skip
        assert not list((here.parent / "tmp").glob("statsnet-*"))
        return done

    return run


@pytest.fixture
def failing(cli: Cli, here: Path) -> Callable[..., str]:
    """Runs a command that must fail with `code` and neither write nor trace; returns its message."""

    def files() -> list[Path]:
        return sorted(p for p in here.rglob("*") if "__pycache__" not in p.parts)

    def run(*arguments: str, code: int, **options: Any) -> str:
        before = files()
        done = cli(*arguments, **options)
        assert done.returncode == code, done.stderr
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        assert "statsnet: " in done.stderr
        assert files() == before
        return done.stderr

    return run


@pytest.fixture
def model(here: Path) -> str:
    (here / "model.py").write_text(MODEL)
    return "model.py"
