"""`--json [FILE]` means the same in every command, and never writes a file that a command was to read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from cli_support import GOLDEN, Cli, member, read, write_proxy, write_result

from statsnet.cli.app import statsnet
from statsnet.cli.json_option import JsonCommand


@pytest.fixture
def files(here: Path) -> Path:
    """A signature s.json, results a.json and b.json, and a proxy p."""
    shutil.copy(GOLDEN, here / "s.json")
    write_result(here / "a.json", 0.0200, 0.0201, 0.0199)
    write_result(here / "b.json", 0.0100, 0.0101, 0.0099)
    write_proxy(here / "p", member("cv/a", 1.0))
    return here


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "s.json"],
        ["show", "p"],
        ["compare", "a.json", "b.json"],
        ["list", "workloads", "resnet*"],
        ["list", "proxies"],
        ["characterize", "resnet*"],
    ],
)
def test_alone_it_prints_json_and_with_a_file_it_writes_it(cli: Cli, files: Path, arguments: list[str]) -> None:
    tables = cli(*arguments)
    printed = cli(*arguments, "--json")
    written = cli(*arguments, "--json", "out.json")
    assert (tables.returncode, printed.returncode, written.returncode) == (0, 0, 0), written.stderr
    assert written.stdout == f"{tables.stdout}\nwritten to out.json\n"
    assert printed.stdout == (files / "out.json").read_text()
    assert cli(*arguments, "--json", "-").stdout == printed.stdout
    assert cli(arguments[0], "--json", *arguments[1:]).stdout == printed.stdout
    assert cli(*arguments, "--json=any name").returncode == 0
    assert (files / "any name").read_text() == printed.stdout


@pytest.mark.parametrize("arguments", [["show", "--json", "s.json"], ["compare", "--json", "a.json", "b.json"]])
def test_an_argument_that_a_command_needs_is_not_written(cli: Cli, files: Path, arguments: list[str]) -> None:
    before = {p: p.read_bytes() for p in files.rglob("*.json")}
    done = cli(*arguments)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    assert {p: p.read_bytes() for p in files.rglob("*.json")} == before


def test_a_file_may_stand_before_the_arguments(cli: Cli, files: Path) -> None:
    assert cli("compare", "--json", "out.json", "a.json", "b.json").returncode == 0
    assert read(files / "out.json")["results"][1]["comparison"]["speedup"] == pytest.approx(2.0, rel=1e-2)
    assert cli("show", "--json", "out.json", "--", "s.json").returncode == 0
    assert (files / "out.json").read_text() == GOLDEN.read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "s.json", "--json", "s.json"],
        ["show", "p", "--json", "p/spec.json"],
        ["compare", "a.json", "b.json", "--json", "./b.json"],
        ["run", "p", "--json", "p/spec.json"],
        ["validate", "p", "--json", "p/fit.json"],
        ["synthesize", "--mix", "s.json:1", "--mode", read(GOLDEN)["mode"], "--json", "s.json"],
        ["characterize", "s.json", "--json", "s.json"],
        ["map", "a.json", "s.json", "--json=./s.json"],
        ["export", "s.json", "--format", "manifest", "-o", "out", "--json", "s.json"],
        ["export", "p", "--format", "manifest", "-o", "out", "--json", "p/spec.json"],
    ],
)
def test_what_is_read_is_not_written(failing: Callable[..., str], files: Path, arguments: list[str]) -> None:
    before = {p: p.read_bytes() for p in files.rglob("*.json")}
    assert "would be overwritten, but the command reads it" in failing(*arguments, code=2)
    assert {p: p.read_bytes() for p in files.rglob("*.json")} == before


@pytest.mark.parametrize("command", ["characterize", "map"])
def test_a_signature_behind_json_is_not_written_over(failing: Callable[..., str], files: Path, command: str) -> None:
    """It was meant to be read: without it, the command shows the whole database."""
    before = (files / "s.json").read_bytes()
    assert "'s.json' is a signature, and would be overwritten" in failing(command, "--json", "s.json", code=2)
    assert (files / "s.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (
            ["export", "s.json", "--format", "manifest", "-o", "out", "--json", "out/x.json"],
            2,
            "the folder that is made",
        ),
        (["list", "profiles", "--profiles", "nowhere"], 2, "there is no folder 'nowhere'"),
        (["show", "--json"], 2, "Missing argument 'FILE'"),
        (["compare", "--json", "a.json"], 2, "Missing argument 'RESULT'"),
        (["synthesize", "--json", "out.json"], 2, "Missing option '--mix'"),
        (["show", "s.json", "--json", "out"], 2, "try: --json=FILE takes any name"),
        (["show", "s.json", "--json=p"], 2, "'p' is a folder"),
        (["show", "s.json", "--json", "s.json/out.json"], 2, "'s.json' is not a folder"),
    ],
)
def test_what_it_refuses(failing: Callable[..., str], files: Path, arguments: list[str], code: int, text: str) -> None:
    assert text in failing(*arguments, code=code)


def test_no_command_has_a_json_option_of_its_own() -> None:
    for command in statsnet.commands.values():
        flags = [p for p in command.params if "--json" in p.opts]
        assert not flags or (isinstance(command, JsonCommand) and isinstance(flags[0], click.Option))
