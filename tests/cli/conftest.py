"""The command line in a folder of its own, by default in this process."""

from __future__ import annotations

import contextlib
import io
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_support import MODEL, Cli, command, environment

from statsnet.cli import main


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The working directory of the commands; temporary files go beside it, so that none stays unseen."""
    folder = tmp_path / "here"
    folder.mkdir()
    (tmp_path / "tmp").mkdir()
    return folder


@pytest.fixture
def cli(here: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs the command line in `here` and checks that it left no temporary file. It runs in this process, which has
    imported torch and has a server of measuring processes, unless options of a process are given."""
    monkeypatch.setattr(tempfile, "tempdir", str(here.parent / "tmp"))

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        if options:
            done = subprocess.run(
                command(*arguments), capture_output=True, text=True,
                **{"cwd": here, "env": environment(here), **options},
            )  # fmt: skip
        else:
            done = _in_this_process(here, arguments)
        assert not list((here.parent / "tmp").glob("statsnet-*"))
        return done

    return run


def _in_this_process(folder: Path, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as errors,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        code = main(arguments)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), errors.getvalue())


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
