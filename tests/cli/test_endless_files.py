"""Pipes, devices and deep nesting in place of files: every command that reads ends, in one sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_support import GOLDEN

from statsnet.cli.app import main

READING = (
    "show {}", "audit {}", "coarsen {} --level coarse -o out", "aggregate {}:1 -o out", "compare {} {}",
    "cover {} {}", "report {} -o out", "export {} --format manifest -o out",
    "export --mix {}:1 --format manifest -o out", "device import {} -o out", "device show {}",
    "import {} -o out", "map {}", "characterize {}", "synthesize --mix {}:1 --macs 1M -o out",
    "synthesize --mix {}:1 --device recorded:{} -o out",
)  # fmt: skip


def pipe(path: Path) -> None:
    os.mkfifo(path)


def deep(path: Path) -> None:
    path.write_text("[" * 200_000)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("made", [pipe, deep, zeros])
@pytest.mark.parametrize("words", READING)
def test_a_command_ends(
    words: str, made: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "x.json")
    assert main(words.replace("{}", "x.json").split()) in (1, 2)
    said = capsys.readouterr().err
    assert said.startswith("statsnet: ") and "unexpected" not in said, said
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_a_pipe_in_place_of_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.json").write_bytes(GOLDEN.read_bytes())
    os.mkfifo(tmp_path / "x.json.key")
    assert main(["synthesize", "--mix", "x.json:1", "--macs", "1M", "-o", "out"]) == 1
    assert "pipe or a device" in capsys.readouterr().err
