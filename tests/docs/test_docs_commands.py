"""The commands that README.md and the how-to pages show exist, and the quick ones run."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from cli_support import environment, write_proxy
from markdown_pages import ROOT, WITH_COMMANDS, Block, code_blocks, commands, pages

from statsnet.cli import app, main
from statsnet.workloads.settings import parse_settings

PAGES = [str(page.relative_to(ROOT)) for page in pages(WITH_COMMANDS)]
SHOWN = sorted({(page, *words) for page in PAGES for words in commands(ROOT / page)})
OF_STATSNET = [words for words in SHOWN if words[1] == "statsnet"]
OF_BENCHMARKS = [words for words in SHOWN if words[1] == "python" and words[2].startswith("benchmarks/")]

PYTHON = f'#!/bin/sh\nexec {sys.executable} "$@"\n'
STATSNET = f"""#!/bin/sh
case $1 in
  run) set -- "$@" --processes 1 --min-time 20ms --max-time 100ms ;;
  profile) set -- "$@" --min-time 20ms ;;
esac
exec {sys.executable} -m statsnet "$@"
"""
"""The program, which measures no longer than a test needs."""


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


@functools.cache
def help_of(program: str) -> str:
    done = subprocess.run(
        [sys.executable, program, "--help"], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("words", OF_BENCHMARKS, ids=" ".join)
def test_a_benchmark_that_is_shown_knows_its_options(words: tuple[str, ...]) -> None:
    program, *arguments = words[2:]
    assert (ROOT / program).is_file()
    options = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    known = set(re.findall(r"--[\w-]+", help_of(program)))
    assert options <= known, f"{program} does not know {', '.join(sorted(options - known))}"


@pytest.fixture
def try_page(tmp_path: Path) -> Callable[[list[Block]], None]:
    """Does what a page says, in a folder with a small proxy, my-proxy, and a copy of the examples."""
    here, programs = tmp_path / "here", tmp_path / "programs"
    for folder in (here, programs, tmp_path / "tmp"):
        folder.mkdir()
    for name, text in (("python", PYTHON), ("statsnet", STATSNET)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    variables = environment(here)
    variables["PATH"] = f"{programs}{os.pathsep}{variables['PATH']}"

    write_proxy(here / "my-proxy")
    shutil.copytree(ROOT / "examples", here / "examples")

    def run(blocks: list[Block]) -> None:
        for block in blocks:
            if block.title:
                (here / block.title).write_text(block.text)
            if block.runs:
                shell = ["bash", "-euo", "pipefail", "-c", block.text]
                done = subprocess.run(shell, cwd=here, env=variables, capture_output=True, text=True)
                assert done.returncode == 0, f"{block.text}\n{done.stderr}"

    return run


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.runs for block in code_blocks(ROOT / page))])
def test_what_is_marked_runs(try_page: Callable[[list[Block]], None], page: str) -> None:
    try_page(code_blocks(ROOT / page))
