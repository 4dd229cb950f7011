"""The commands that README.md and the how-to pages show exist, and the quick ones run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from benchmark_programs import Program
from cli_support import environment, write_proxy
from markdown_pages import ROOT, WITH_COMMANDS, code_blocks, commands, pages

from statsnet.cli import app, main
from statsnet.workloads.settings import parse_settings

PAGES = [str(page.relative_to(ROOT)) for page in pages(WITH_COMMANDS)]
SHOWN = sorted({(page, *words) for page in PAGES for words in commands(ROOT / page)})
OF_STATSNET = [words for words in SHOWN if words[1] == "statsnet"]
OF_BENCHMARKS = [words for words in SHOWN if words[1] == "python" and words[2].startswith("benchmarks/")]

NO_LONGER = {
    "run": ("--processes", "1", "--min-time", "20ms", "--max-time", "100ms"),
    "profile": ("--min-time", "20ms"),
    "synthesize": ("--effort", "quick"),
    "my-proxy/network.py": ("--min-time", "0.02", "--max-time", "0.1"),
    "examples/llama_70b.py:llama_70b": ("--set", "layers=4"),
}
"""Options of commands, a program and a model that take no longer than a test needs, by one of their first two words."""


def leaves(group: click.Group, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, by the words that call it."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, *names, name)
        else:
            yield (*names, name), command


LEAVES = list(leaves(app.statsnet))


def do_nothing(**given: object) -> None:
    """In place of a command; the names of settings are checked, since a command knows them only when it runs."""
    for name in ("setting", "settings"):
        if isinstance(text := given.get(name), str):
            parse_settings(text)


@pytest.mark.parametrize("words", OF_STATSNET, ids=" ".join)
def test_a_command_that_is_shown_exists(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for _, command in LEAVES:
        monkeypatch.setattr(command, "callback", do_nothing)
    assert main(words[2:]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("names", [names for names, _ in LEAVES], ids=" ".join)
def test_help_of_every_command_explains_and_gives_an_example(
    names: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*names, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"Usage: statsnet {' '.join(names)}" in text
    assert f"Example: statsnet {' '.join(names)}" in " ".join(text.split())
    assert len(text.split("Options:")[0].split()) > 12


@pytest.mark.parametrize("words", OF_BENCHMARKS, ids=" ".join)
def test_a_benchmark_that_is_shown_knows_its_options(words: tuple[str, ...], run_program: Program) -> None:
    program, *arguments = words[2:]
    options = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    help_ = run_program(program.removeprefix("benchmarks/"), "--help")
    assert help_.returncode == 0, help_.stderr
    known = set(re.findall(r"--[\w-]+", help_.stdout))
    assert options <= known, f"{program} does not know {', '.join(sorted(options - known))}"


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.runs for block in code_blocks(ROOT / page))])
def test_what_is_marked_runs(
    page: str, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In a folder with a small proxy, my-proxy, and a copy of the examples. `statsnet` runs in this process."""
    here = tmp_path / "here"
    for folder in (here, tmp_path / "tmp"):
        folder.mkdir()
    monkeypatch.chdir(here)
    write_proxy(here / "my-proxy")
    shutil.copytree(ROOT / "examples", here / "examples")
    variables = environment(here)
    variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{variables['PATH']}"
    for block in code_blocks(ROOT / page):
        if block.title:
            (here / block.title).write_text(block.text)
        for line in block.text.splitlines() if block.runs else ():
            program, *words = shlex.split(line, comments=True)
            if program == "statsnet":
                code = main([*words, *(more for word in words[:2] for more in NO_LONGER.get(word, ()))])
            else:
                line = f"{line} {shlex.join(NO_LONGER.get(words[0], ()))}"
                code = subprocess.run(["bash", "-c", line], env=variables).returncode
            assert code == 0, f"{line}\n{capfd.readouterr().err}"
