"""Words of the command line: completed by a shell, near matches of mistyped ones, and no unwanted colours."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_support import Cli, write_proxy

from statsnet.cli import main, output
from statsnet.cli.completion import SHELLS, VARIABLE
from statsnet.devices.names import device_named
from statsnet.errors import MeasurementError, UsageError
from statsnet.progress import Progress
from statsnet.workloads import build
from statsnet.workloads.optimizers import make_optimizer


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert f"{VARIABLE}={shell}_complete" in text
    if program := shutil.which(shell):
        done = subprocess.run([program, "-n"], input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def completed(*words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What bash is answered when the last word is completed."""
    monkeypatch.setenv(VARIABLE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(["statsnet", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    assert main([]) == 0
    monkeypatch.delenv(VARIABLE)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("syn",), "plain,synthesize"),
        (("device", "re"), "plain,record"),
        (("profile", "recsys/nc"), "plain,recsys/ncf"),
        (("profile", "x.py:make", "--mode", "tr"), "plain,training"),
        (("profile", "x.py:make", "--optimizer", "adamw"), "plain,adamw"),
        (("run", "p", "--trace", "a"), "file,a"),
        (("run", "p", "--setting", "layo"), "plain,layout=channels_last"),
        (("validate", "p", "--settings", "onednn=avx2_vnni_"), "plain,onednn=avx2_vnni_2"),
        (("profile", "my_model"), "file,my_model"),
        (("export", "p", "--format", "scale"), "plain,scalesim"),
        (("show", "--json", "nowhere/x.json", "s"), "file,s"),
        (("completion", "fi"), "plain,fish"),
    ],
)
def test_what_a_word_completes_to(
    words: tuple[str, ...], offered: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert offered in completed(*words, capsys=capsys, monkeypatch=monkeypatch)


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["device", "recrod"], "did you mean record?"),
        (["run", "p", "--devise", "cpu"], "--device"),
        (["profile", "resnet5", "-o", "x.json"], "did you mean cv/resnet50"),
        (["profile", "ncf", "-o", "x.json", "--mode", "trainng"], "did you mean training?"),
        (["profile", "ncf", "-o", "x.json", "--level", "corse"], "did you mean coarse?"),
        (["run", "p", "--device", "gpu"], "use cpu, cuda or cuda:N"),
        (["run", "p", "--setting", "thread=1"], "did you mean threads?"),
        (["run", "p", "--setting", "onednn=ssse41"], "did you mean sse41"),
        (["synthesize", "--mix", "recsis:1"], "did you mean recsys"),
        (["compare", "a.json", "b.json", "--format", "markdwon"], "did you mean markdown?"),
        (["export", "p", "--format", "scalsim", "-o", "x"], "did you mean scalesim?"),
    ],
)
def test_a_mistyped_word_is_told_the_nearest(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], near: str
) -> None:
    monkeypatch.chdir(here)
    write_proxy(here / "p")
    assert main(arguments) in (1, 2)
    said = capsys.readouterr().err
    assert near in said, said


@pytest.mark.parametrize(
    ("changes", "near"),
    [
        ({"preset": "tinny"}, "did you mean tiny?"),
        ({"dtype": "bfloat"}, "did you mean bfloat16"),
        ({"mode": "trainng"}, "did you mean training?"),
        ({"overrides": {"max_row": "5"}}, "did you mean max_rows?"),
        ({"dtype": "x"}, "one of float32, "),
    ],
)
def test_what_a_workload_is_not_built_with(changes: dict[str, Any], near: str) -> None:
    with pytest.raises(UsageError) as raised:
        build("recsys/ncf", **{"mode": "inference", **changes})
    assert near in raised.value.hint


def test_near_optimizers_and_devices() -> None:
    with pytest.raises(UsageError, match="did you mean adamw"):
        make_optimizer("adamww", [], sparse=False)
    with pytest.raises(UsageError, match="did you mean nvidia-h100-sxm"):
        device_named("nvidia-h100-sxn", {"nvidia-h100-sxm", "nvidia-l4"})


COLOUR = re.compile(r"\x1b\[[0-9;]*?(?:3[0-7]|4[0-7]|38|48|9[0-7]|10[0-7])[;m]")


@pytest.mark.parametrize("no_color", ["", "1"])
def test_no_color_is_heeded_on_a_terminal(
    no_color: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output.sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    with output.progress() as show:
        show(Progress(stage="measuring", done=0.5))
    said = capsys.readouterr().err
    assert "measuring" in said
    assert bool(COLOUR.search(said)) is not bool(no_color)


def test_an_error_that_is_piped_is_plain(cli: Cli) -> None:
    assert "\x1b" not in cli("show", "nothing").stderr


def test_a_hint_is_one_for_what_is_near(failing: Callable[..., str]) -> None:
    assert "did you mean" not in failing("frobnicate", code=2)


def test_what_was_noted_is_told_though_the_synthesis_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """It often says why."""
    with pytest.raises(MeasurementError), output.told_if_it_fails(["blocks were left out"]):
        raise MeasurementError("no network fits")
    assert "blocks were left out" in capsys.readouterr().err
    with output.told_if_it_fails(["blocks were left out"]):
        pass
    assert capsys.readouterr().err == ""
