"""Pipes, devices and deep nesting in place of files: every command that reads ends, in one sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from statsnet.cli.app import main
from statsnet.errors import StatsNetError
from statsnet.signatures.member_key import key_of

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


def itself(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("made", [pipe, deep, zeros, itself])
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


def test_a_pipe_in_place_of_a_key(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.json.key")
    with pytest.raises(StatsNetError, match="cannot be stored") as refused:
        key_of(tmp_path / "x.json")
    assert "pipe or a device" in (refused.value.cause or "")
