"""`--sandbox`: which commands take it, what is in it, and what a program in it cannot do."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from cli_support import MODEL, member, write_proxy
from recording_files import operator, write
from sandboxes import needs_sandbox
from synthesis_builders import small_signature

from statsnet.cli import app, main
from statsnet.errors import MeasurementError
from statsnet.measure import sandbox
from statsnet.measure.process import MeasuringProcess
from statsnet.signatures.storage import save_signature

NCF = member("recsys/ncf", 1.0, preset="tiny", batch=8)

MEASURING = {
    "run": ["run", "p"],
    "validate": ["validate", "p"],
    "explain": ["explain", "p", "--settings", "threads=1"],
    "export": ["export", "p", "--format", "manifest", "-o", "x"],
    "profile": ["profile", "model.py:make", "-o", "s.json"],
    "synthesize": ["synthesize", "--mix", "new.json:1", "-o", "q"],
    "update": ["update", "own", "--profiles", ".", "-o", "q"],
    "device record": ["device", "record", "-o", "d.json"],
    "import": ["import", "trace.json", "-o", "s.json"],
    "device import": ["device", "import", "trace.json", "--device", "acme-one", "-o", "d.json"],
}
"""Commands that run what a file describes."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("statsnet.measure.cache.cache_dir", lambda: tmp_path / "cache")
    write_proxy(folder / "p", NCF)
    (folder / "model.py").write_text(MODEL)
    write(folder / "trace.json", [operator("aten::relu", 1000, 9, [[8, 8]], ["float"], [""])])
    own = small_signature(measurements=())
    save_signature(folder / "new.json", own)
    write_proxy(folder / "own", member("own", 1.0, own.id))
    return folder


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in the place of bubblewrap, which runs what it is given."""
    (tmp_path / "bwrap").write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def commands(group: click.Group, *names: str) -> Iterator[tuple[str, set[str]]]:
    """Every command, with its options."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)
        else:
            yield " ".join((*names, name)), {option for p in command.params for option in p.opts}


def test_every_command_that_measures_what_a_file_describes_takes_it() -> None:
    found = dict(commands(app.statsnet))
    assert {name for name, options in found.items() if "--sandbox" in options} == {*MEASURING}
    measuring = {name for name, options in found.items() if options & {"--trust", "--counters", "--rounds"}}
    assert measuring == {*MEASURING} - {"import", "device import"}


@pytest.mark.parametrize("name", MEASURING)
def test_without_bubblewrap_nothing_begins(
    name: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    before = sorted(here.rglob("*"))
    assert main([*MEASURING[name], "--sandbox"]) == 2
    assert "there is no sandbox on this machine" in capsys.readouterr().err
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize("words", [
    MEASURING["run"], [*MEASURING["run"], "--trace", "t.json"], MEASURING["validate"], MEASURING["explain"],
    MEASURING["export"], MEASURING["profile"], [*MEASURING["profile"], "--check"], MEASURING["synthesize"],
    MEASURING["update"], MEASURING["import"], MEASURING["device import"], [*MEASURING["synthesize"], "--trials", "2"],
], ids=" ".join)  # fmt: skip
@pytest.mark.parametrize("is_on", [True, False])
def test_its_processes_are_in_it(
    words: list[str], is_on: bool, here: Path, played: None, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    seen: list[bool] = []

    def refuse(_: object) -> None:
        seen.append(sandbox.is_on())
        raise MeasurementError("that is enough")

    monkeypatch.setattr(MeasuringProcess, "__enter__", refuse)
    assert main([*words, *(["--sandbox"] if is_on else [])]) == 1
    assert "that is enough" in capsys.readouterr().err
    assert {*seen} == {is_on}
    assert not sandbox.is_on()


def test_torchrun_needs_a_network(
    here: Path, played: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    assert main([*MEASURING["profile"], "--sandbox"]) == 2
    assert "--sandbox was given for several processes" in capsys.readouterr().err


HOSTILE = """
import pathlib, socket
pathlib.Path({written!r}).write_text("here")
socket.create_connection(("127.0.0.1", {port}), timeout=5).close()
"""


@needs_sandbox
@pytest.mark.parametrize("is_on", [True, False])
def test_a_program_of_a_stranger_writes_and_connects_to_nothing(is_on: bool, here: Path) -> None:
    """The same proxy's network, as a program that its maker added to: with the sandbox, and without."""
    written, source = here / "written", (here / "p" / "network.py").read_text()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        lines = HOSTILE.format(written=str(written), port=server.getsockname()[1]).splitlines()
        tried = [f"    {line}" for line in lines]
        network = "\n".join([source, "try:", *tried, "except OSError:", "    pass", ""])
        (here / "p" / "network.py").write_text(network)
        words = ["export", "p", "--format", "manifest", "--trust", "-o", "x", *(["--sandbox"] if is_on else [])]
        assert main(words) == 0
        assert (here / "x" / "manifest.json").is_file()
        assert written.exists() is not is_on
        if is_on:
            with pytest.raises(BlockingIOError):
                server.accept()
        else:
            server.accept()[0].close()


@needs_sandbox
def test_a_model_in_a_hidden_folder_is_profiled_with_what_lies_beside_it_and_recorded(here: Path) -> None:
    """`here` is the working directory; the model is in another folder of /tmp, which is empty for others."""
    (here.parent / "theirs").mkdir()
    (here.parent / "theirs" / "sizes.txt").write_text("16")
    (here.parent / "theirs" / "m.py").write_text(
        f"{MODEL}\n\ndef sized():\n    import pathlib\n"
        "    return make(width=int(pathlib.Path(__file__).with_name('sizes.txt').read_text()))\n"
    )
    words = ["profile", str(here.parent / "theirs" / "m.py:sized"), "--min-time", "10ms", "--sandbox"]
    assert main([*words, "-o", "s.json", "--trace", "t.json.gz"]) == 0
    assert (here / "s.json").is_file() and (here / "t.json.gz").stat().st_size > 0
