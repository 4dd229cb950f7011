"""`--trace` of `profile` and `run`: files for Perfetto and speedscope, and what is refused before the work."""

from __future__ import annotations

import gzip
import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_support import read, write_proxy

from statsnet.cli import main

QUICK = ("--min-time", "20ms")
Run = Callable[..., tuple[str, str]]


@pytest.fixture
def ran(here: Path, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in `here`, which holds a model and a proxy: what it says on stdout and stderr."""
    monkeypatch.chdir(here)
    write_proxy(here / "p")
    (here / "folder").mkdir()

    def run(*arguments: str, code: int = 0) -> tuple[str, str]:
        returned = main(arguments)
        said = capsys.readouterr()
        assert returned == code, said.err
        return said.out, said.err

    return run


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_profile_s_trace_holds_names_and_its_signature_none(ran: Run, here: Path) -> None:
    _, said = ran("profile", "model.py:make", "-o", "s.json", "--trace", "t.json.gz", *QUICK)
    assert "t.json.gz: 3 steps of" in said
    assert "https://ui.perfetto.dev" in said
    assert "names of your model" in said and "stays in the house" in said
    assert mode_of(here / "t.json.gz") == 0o600
    text = gzip.decompress((here / "t.json.gz").read_bytes()).decode()
    assert "2 Linear" in text
    assert "2 Linear" not in (here / "s.json").read_text()
    ran("import", "t.json.gz", "-o", "again.json")
    first, again = read(here / "s.json"), read(here / "again.json")
    ops = [{c["op"] for c in data["counts"]["clusters"] if c["flops"]} for data in (first, again)]
    assert ops[0] == ops[1]


def test_a_trace_alone_needs_no_signature(ran: Run, here: Path) -> None:
    printed, said = ran("profile", "model.py:make", "--trace", "what.speedscope.json")
    assert "in Python: open it at https://www.speedscope.app" in said
    assert printed == ""
    assert read(here / "what.speedscope.json")["$schema"].startswith("https://www.speedscope.app")
    assert sorted(p.name for p in here.iterdir() if p.is_file()) == ["model.py", "what.speedscope.json"]


def test_a_proxy_s_trace_beside_its_result(ran: Run, here: Path) -> None:
    options = ("--processes", "1", "--max-time", "100ms", *QUICK)
    printed, said = ran("run", "p", "--trace", "sub/p.json", "--json", *options)
    assert json.loads(printed)["kind"] == "statsnet.result"
    assert "share the result" in said
    assert mode_of(here / "sub" / "p.json") == 0o600
    assert {"tower 1", "1.1 Conv"} <= {event["name"] for event in read(here / "sub" / "p.json")["traceEvents"]}


PROFILE = ("profile", "model.py:make", "--trace")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((*PROFILE, "t.txt"), "is no name for a recording"),
        ((*PROFILE, "-"), "'-' is not a file"),
        ((*PROFILE, "folder"), "'folder' is a folder"),
        ((*PROFILE, "/dev/full"), "is not a regular file"),
        ((*PROFILE, "model.py/t.json"), "is not a folder"),
        ((*PROFILE, "s.json", "-o", "./s.json"), "'s.json' was given twice"),
        ((*PROFILE, "t.json", "--device", "meta"), "--trace was given for counting"),
        ((*PROFILE, "t.json", "--setting", "runtime=openvino"), "was given for a profile"),
        (("profile", "--mix", "cv:1", "-o", "db", "--trace", "t.json"), "--trace and --mix were both given"),
        (("run", "p", "--scenario", "offline", "--trace", "t.json"), "--trace does not go with --scenario"),
        (("run", "p", "--trace", "p/spec.json"), "would be overwritten"),
        (("run", "p", "--trace", "t.json", "--json", "t.json"), "was given twice"),
        (("run", "p", "--trace", "t.json", "--setting", "runtime=onnxruntime"), "sees nothing of another runtime"),
    ],
)
def test_what_is_refused_before_the_work(ran: Run, here: Path, arguments: tuple[str, ...], text: str) -> None:
    before = sorted(here.rglob("*"))
    printed, said = ran(*arguments, code=2)
    assert text in said, said
    assert "try:" in said
    assert printed == ""
    assert "building the model" not in said
    assert sorted(here.rglob("*")) == before


def test_under_torchrun_nothing_is_recorded(ran: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    assert "a recording is of one process" in ran(*PROFILE, "t.json", code=2)[1]
