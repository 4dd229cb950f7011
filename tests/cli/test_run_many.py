"""`statsnet run` of several proxies with made-up times: which results are kept, and what they are called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cli_support import read, write_proxy

from statsnet.cli import fleet, main
from statsnet.evaluation.run_proxy import TimeProxy
from statsnet.measure.engine import Asked, Done, Fleet, Place
from statsnet.measure.timing_tasks import TimedStep
from statsnet.progress import Report, silent
from statsnet.signatures.timing import Timing

Z80 = {"device": "cpu", "device_name": "Z80", "threads": 2, "torch": "2.9.0", "settings": {}}


@dataclass
class MadeUp:
    """One node, whose step takes a millisecond."""

    environment: dict[str, Any] = field(default_factory=lambda: dict(Z80))
    timed: list[TimeProxy] = field(default_factory=list)

    def find(self, device: str | None) -> Fleet:
        return Fleet(places=(Place(id="0", name="node-0", device="cpu", environment=self.environment),))

    def run(self, asked: Sequence[Asked[Any]], *, report: Report = silent) -> Iterator[Done[Any]]:
        for index, each in enumerate(asked):
            errand = each.errand
            assert isinstance(errand, TimeProxy)
            self.timed.append(errand)
            environment = {**self.environment, "threads": errand.setting.threads or self.environment["threads"]}
            runs = round((errand.limits.min_time_s or 1.0) / 1e-3)
            step = TimedStep(timing=Timing(latency_s=(1e-3,) * runs), environment=environment)
            yield Done(index=index, place=each.places[0], result=(step,) * errand.processes)


@pytest.fixture
def engine(here: Path, monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    made = MadeUp()

    @contextmanager
    def opened(_engine: str, _device: str | None) -> Iterator[MadeUp]:
        yield made

    monkeypatch.chdir(here)
    monkeypatch.setattr(fleet, "opened", opened)
    return made


def test_only_what_was_asked_for_is_kept(engine: MadeUp, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_proxy(here / "p")

    def said(*words: str) -> str:
        """On stderr."""
        assert main(["run", "p", "-o", "runs", *words]) == 0
        return capsys.readouterr().err

    for number, words in enumerate(
        [
            (),
            ("--threads", "1"),
            ("--threads", "4"),
            ("--setting", "mkl=compatible"),
            ("--setting", "mkl=compatible", "--threads", "4"),
        ],
        start=1,
    ):
        assert "kept" not in said(*words)
        assert len(engine.timed) == number
        assert "kept, 'runs/" in said(*words)
        assert len(engine.timed) == number
    names = {path.name for path in here.glob("runs/*/*")}
    assert names == {
        "p.json",
        "p.threads-1.json",
        "p.threads-4.json",
        "p.mkl-compatible.json",
        "p.mkl-compatible-threads-4.json",
    }
    assert "kept" in said("--setting", "threads=4")
    assert "kept" in said("--processes", "2")  # more than that are there
    assert "measured again, 'runs/cpu-z80-2t-torch2.9/p.json' has 3 of 4 processes" in said("--processes", "4")
    assert "measured again" in (told := said("--processes", "4", "--min-time", "2s"))
    assert "was timed for 1 s, and 2 s are asked for" in told
    assert "kept" in said("--processes", "4", "--min-time", "2s")
    engine.environment["torch"] = "2.9.1"  # the folder's name is the same
    assert "comes from another environment (torch: 2.9.0 against 2.9.1)" in said("--threads", "4")
    assert "kept" in said("--threads", "4")
    assert len(read(here / "runs/cpu-z80-2t-torch2.9/p.json")["processes"]) == 4


def test_proxies_of_one_name_are_told_apart(
    engine: MadeUp, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("p", "a/p", "b/a/p", "b-a-p", "q"):
        write_proxy(here / name)
    monkeypatch.chdir(here / "a")
    assert main(["run", "p", "../p", "./p", "../b/a/p", "../b-a-p", "../q", "../q/", "-o", "runs"]) == 0
    assert len(engine.timed) == 5
    names = {path.name for path in here.glob("a/runs/*/*")}
    assert names == {f"{here.name}-a-p.json", f"{here.name}-p.json", "b-a-p.json", "b-a-p-2.json", "q.json"}
    assert "kept" not in capsys.readouterr().err
