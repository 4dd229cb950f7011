"""Help, usage errors, unexpected errors, pipes: what every command shares."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from cli_support import GOLDEN, Cli, command, environment

from statsnet import __version__
from statsnet.cli import app, main, output
from statsnet.cli.completion import VARIABLE
from statsnet.measure.patience import PATIENCE
from statsnet.progress import Progress
from statsnet.reporting.tables import table

COMMANDS = (
    "profile", "synthesize", "run", "validate", "explain", "compare", "list", "show", "cache", "doctor", "report",
    "cover", "update",
)  # fmt: skip


def test_version_and_help(cli: Cli) -> None:
    assert cli("--version").stdout == f"statsnet {__version__}\n"
    done = cli("--help")
    assert done.returncode == 0
    assert all(f"  {name}" in done.stdout for name in COMMANDS)


WITHOUT_TORCH = f"""
import os, sys
from statsnet.cli import main

for words in ["list"], ["list", "profiles"], ["device", "list"], ["show", {str(GOLDEN)!r}]:
    assert main(words) == 0
os.environ |= {{"COMP_WORDS": "statsnet profile cv/", "COMP_CWORD": "2", {VARIABLE!r}: "bash_complete"}}
assert main([]) == 0
del os.environ[{VARIABLE!r}]
assert main(["synthesize", "--mix", "suite.yaml"]) == 2
assert "torch" not in sys.modules
"""


def test_quick_commands_and_errors_import_no_torch_and_need_no_unicode(here: Path) -> None:
    (here / "suite.yaml").write_text("members: [{domain: csv, weight: 1}]")
    variables = {**environment(here), "PYTHONIOENCODING": "ascii"}
    words = [sys.executable, "-c", WITHOUT_TORCH]
    done = subprocess.run(words, env=variables, capture_output=True, text=True, cwd=here)
    assert done.returncode == 0, done.stderr
    assert "plain,cv/resnet50" in done.stdout and "did you mean cv" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["validat"], ["no command 'validat'", "did you mean validate?"]),
        (["run"], ["Missing argument", "statsnet run --help"]),
        (["profile", "ncf"], ["no output was given", "-o FILE"]),
        (["profile", "ncf", "-o", "x.json", "--batch", "0"], ["--batch"]),
        (["profile", "ncf", "-o", "x.json", "--set", "layers"], ["'layers' is not KEY=VALUE"]),
        (["synthesize", "--mix", "cv:1", "--budget", "10"], ["'10' is not a duration", "10ms"]),
        (["run", "x", "--processes", "0"], ["--processes"]),
        (["list", "proxys", "x"], ["none of workloads, profiles, proxies", "did you mean proxies"]),
    ],
)
def test_usage_errors_exit_with_2(failing: Callable[..., str], arguments: list[str], texts: list[str]) -> None:
    message = failing(*arguments, code=2)
    assert all(text in message for text in texts), message


def test_an_unexpected_error_is_called_a_bug_and_traced_only_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setitem(app.statsnet.commands, "broken", click.Command("broken", callback=broken))
    monkeypatch.setenv("STATSNET_DEBUG", "0")
    assert main(["broken"]) == 1
    text = capsys.readouterr().err
    assert "ZeroDivisionError" in text
    assert "this is a bug" in text
    assert "Traceback" not in text
    monkeypatch.setenv("STATSNET_DEBUG", "1")
    assert main(["broken"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_leaves_early_is_no_error(here: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command("list"), cwd=here, env=environment(here), stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode == app.BROKEN_PIPE


def test_piped_output_is_plain_and_lines_do_not_end_in_blanks(cli: Cli) -> None:
    text = cli("list", "cv/*").stdout
    assert "\x1b" not in text
    assert "cv/resnet50" in text
    assert "recsys" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_a_log_names_each_stage_once_and_says_now_and_then_what_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    with output.progress() as show:
        for number in range(1, 8):
            now[0] += 25.0
            show(Progress(stage=f"the proxy, round {number} of 8"))
    shown = capsys.readouterr().err.splitlines()
    assert shown == [f"the proxy, round {n} of 8" for n in (1, 4, 7)]


@pytest.mark.parametrize(("waited_s", "notes"), [(4.0, 0), (12.0, 1)])
def test_waiting_for_quiet_moments_is_said_at_the_end(
    waited_s: float, notes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    PATIENCE.restart()
    PATIENCE.spend(30.0)  # before
    with output.progress():
        PATIENCE.spend(waited_s)
        assert capsys.readouterr().err == ""
    assert capsys.readouterr().err.count("statsnet: waited 12 s for quiet moments") == notes


@pytest.mark.parametrize(("disturbed", "notes"), [(5, 0), (6, 1)])
def test_a_machine_that_was_seldom_at_its_best_is_named(
    disturbed: int, notes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    PATIENCE.restart()
    PATIENCE.count(at_best=False)  # before
    with output.progress():
        for number in range(10):
            PATIENCE.count(at_best=number >= disturbed)
    said = capsys.readouterr().err
    assert said.count(f"the machine was disturbed in {disturbed} of 10 measurements") == notes


def test_waiting_is_shown_as_it_is_spent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(output.sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    PATIENCE.restart()
    with output.progress() as show:
        show(Progress(stage="measuring"))
        PATIENCE.spend(3.0)
        show(Progress(stage="measuring"))
    assert "waited 3 s for quiet moments" in capsys.readouterr().err


def test_a_log_says_how_far_the_whole_command_is(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress() as show:
        show(Progress(stage="blocks", done=0.1, of_all=True))
        show(Progress(stage="solving", done=0.42, remaining_s=200.0, of_all=True))
    assert capsys.readouterr().err.splitlines() == ["blocks (10%)", "solving (42%, about 3 min left)"]


@pytest.mark.parametrize(("number", "words"), [(errno.EACCES, "permission denied"), (errno.ENOSPC, "no space left")])
@pytest.mark.parametrize("name", ["show", "run", "audit", "report"])
def test_what_a_file_system_refuses_is_no_bug(
    name: str, number: int, words: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: Path) -> bool:
        raise OSError(number, os.strerror(number), str(path))

    (here / "closed").mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(Path, "is_file", refuse)
    assert main([name, "closed"]) == 1
    said = capsys.readouterr().err
    assert "cannot be read or written" in said and words in said
    assert "bug" not in said


def test_control_characters_of_names_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress() as show:
        show(Progress(stage="reading \x1b]0;owned\x07.json"))
    output.print_notes(["\x1b[2Ja note"])
    output.print_written("\x1b[31mred")
    output.print_report([table("\x1b[1m", ["\x1b[2m"], [["\x1b[3m"]])])
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert "reading ?]0;owned?.json" in said.err
