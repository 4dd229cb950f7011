"""What commands with `--engine` refuse, what they say where no cluster is, and several of them on this machine."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_support import GOLDEN, read, write_proxy

from statsnet.cli import fleet, main, profile_many
from statsnet.environment import slug
from statsnet.errors import StatsNetError
from statsnet.measure import process, ray_cluster
from statsnet.measure.engine import Asked, Done, Fleet, LocalEngine
from statsnet.profiling.members import Outcome
from statsnet.progress import Report, silent

QUICK = ("--preset", "tiny", "--min-time", "20ms")


def test_one_that_fails_loses_nothing_else(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    foreign = here / "db" / slug(process.measuring_environment()) / "recsys" / "ncf.inference.json"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(GOLDEN.read_bytes())
    assert main(["profile", "recsys/nc*", "ncf", "recsys/din", "-o", "db", *QUICK]) == 1
    told = capsys.readouterr()
    assert told.out.count("recsys/ncf: failed, 'db/") == 1
    assert "does not hold what its name says" in told.out
    assert "recsys/din: profiled into db/" in told.out
    assert "1 of 2 workloads could not be profiled" in told.err
    assert "the other 1 are in 'db'" in told.err
    assert foreign.read_bytes() == GOLDEN.read_bytes()


def test_a_cause_that_many_have_is_told_once(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    why = "no node is left for it\ncause: the node has ended\ntry: start one"
    gone = [Outcome(name=name, what="failed", why=why) for name in ("a", "b")]
    monkeypatch.setattr(profile_many, "_outcomes", lambda *_, **__: gone)
    assert main(["profile", "recsys/ncf", "recsys/din", "-o", str(here / "db")]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "a: failed, no node is left for it; cause: the node has ended; try: start one",
        "b: failed, no node is left for it, for the same cause as a",
    ]


def test_several_proxies_on_this_machine(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    for name in ("a", "b"):
        write_proxy(here / name)
    quick = ("--min-time", "20ms", "--max-time", "50ms", "--processes", "1")
    assert main(["run", "a", "b", "-o", "runs", *quick]) == 0
    assert [path.name for path in sorted(here.glob("runs/*/*.json"))] == ["a.json", "b.json"]
    (path,) = here.glob("runs/*/b.json")
    path.write_text(path.read_text().replace(read(path)["subject"]["id"], "sha256:" + "1" * 64))
    capsys.readouterr()
    assert main(["run", "a", "b", "-o", "runs", *quick]) == 1
    told = capsys.readouterr()
    assert "a: kept, 'runs/" in told.err
    assert "b: failed, 'runs/" in told.err
    assert "is the result of another proxy" in told.err


class TwoKinds(LocalEngine):
    """This machine, and one that differs by a setting, which may have ended."""

    def __init__(self) -> None:
        self.other_ended, self.ran = True, 0

    def find(self, device: str | None) -> Fleet:
        (here,) = super().find(device).places
        settings = {**here.environment["settings"], "MKL_CBWR": "COMPATIBLE"}
        return Fleet(places=(here, replace(here, id="other", environment={**here.environment, "settings": settings})))

    def run(self, asked: Sequence[Asked[Any]], *, report: Report = silent) -> Generator[Done[Any], None, None]:
        for index, each in enumerate(asked):
            (place,) = each.places
            if place.id == "other" and self.other_ended:
                yield Done(index=index, error=StatsNetError("no node is left", hint="start one"))
                continue
            self.ran += 1
            (done,) = super().run([each], report=report)
            assert done.result is not None
            (step,) = done.result
            yield Done(index=index, place=place, result=(replace(step, environment=dict(place.environment)),))


def test_a_proxy_on_every_kind_of_node_though_one_has_ended(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command runs what is missing alone, once such a node is back."""
    engine = TwoKinds()
    monkeypatch.setattr(fleet, "opened", lambda *_: nullcontext(engine))
    monkeypatch.chdir(here)
    write_proxy(here / "p")
    words = ["run", "p", "--engine", "ray", "--everywhere", "-o", "runs", "--json", "all.json"]
    words += ["--min-time", "20ms", "--max-time", "50ms", "--processes", "1"]
    assert main(words) == 1
    (kept,) = here.glob("runs/*/p.json")
    before, told = kept.read_bytes(), capsys.readouterr()
    assert "no node is left" in told.err
    assert "the same command tries these alone again; the other 1 are in 'runs'" in told.err
    engine.other_ended = False
    assert main(words) == 0
    told = capsys.readouterr()
    assert told.err.count("kept, 'runs/") == 1
    assert "MKL_CBWR=COMPATIBLE" in told.out
    assert len([*here.glob("runs/*/p.json")]) == len(read(here / "all.json")["results"]) == 2
    assert main(words) == 0
    assert engine.ran == 2
    assert kept.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["profile", "cv/zz*", "-o", "db"], "there is no workload 'cv/zz*'"),
        (["profile", "recsys/ncf", "model.py:make", "-o", "db"], "'model.py:make' is a factory of your own"),
        (["profile", "recsys/*", "-o", "db", "--optimizer", "sgd"], "--optimizer and several"),
        (["profile", "recsys/*", "-o", "db", "--device", "meta"], "several workloads were given for counting"),
        (["profile", "recsys/*", "-o", "db.json"], "'db.json' names a file"),
        (["profile", "recsys/*"], "no output was given"),
        (["profile", "recsys/*", "-o", "db", "--nproc", "2"], "--nproc and several workloads or --engine"),
        (["profile", "recsys/*", "--check"], "--check was given with several workloads"),
        (["profile", "recsys/ncf", "-o", "db", "--engine", "rai"], "did you mean ray?"),
        (["profile", "recsys/ncf", "-o", "db", "--engine", "ray://head"], "'ray://head' has no host and port"),
        (["profile", "recsys/ncf", "-o", "db", "--environment", "x"], "--environment was given without --engine ray"),
        (["run", "p", "--everywhere"], "--everywhere was given without --engine ray"),
        (["run", "p", "--engine", "ray", "--everywhere", "--environment", "x"], "leave out one of them"),
        (["run", "p", "q", "--trace", "t.json"], "--trace was given with several proxies"),
        (["run", "p", "q"], "'q' is not a proxy's folder"),
        (["validate", "p", "--engine", "rai"], "did you mean ray?"),
        (["validate", "p", "--environment", "x"], "--environment was given without --engine ray"),
        (["validate", "p", "--engine", "ray", "--scenario", "offline"], "--scenario and --engine were both given"),
        (["validate", "p", "--engine", "ray", "--model", "cv/x=m.py:make"], "--model and --engine were both given"),
        (["synthesize", "--mix", "cv:1", "--engine", "ray", "--trials", "2"], "--engine and a search were both given"),
        (["synthesize", "--mix", "cv:1", "--engine", "ray", "--macs", "1M"], "--engine and --macs were both given"),
        (["synthesize", "--mix", "cv:1", "--engine", "ray", "--counters", "ncu"], "--engine and --counters ncu were"),
        (["synthesize", "--mix", "cv:1", "--engine", "ray", "--device", "recorded:h100"], "--engine and recorded:h100"),
        (["synthesize", "--mix", "cv:1", "--environment", "x"], "--environment was given without --engine ray"),
    ],
)  # fmt: skip
def test_what_no_fleet_can_do(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    monkeypatch.chdir(here)
    write_proxy(here / "p")
    before = sorted(here.rglob("*"))
    assert main(words) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert "try: " in told.err
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize(
    ("engine", "cause"), [("ray://127.0.0.1:1", "Connection refused"), ("ray", "no Ray runs on this machine")]
)
def test_where_no_cluster_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], engine: str, cause: str, tmp_path: Path
) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray_cluster, "_clusters_here", list)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert main(["profile", "recsys/ncf", "-o", str(tmp_path / "db"), "--engine", engine]) == 1
    told = capsys.readouterr().err
    assert "no Ray cluster could be used" in told
    assert cause in told
    assert "ray start --head" in told


def test_where_ray_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(ray_cluster, "find_spec", lambda _name: None)
    assert main(["run", str(write_proxy(tmp_path / "p")), "--engine", "ray", "--everywhere"]) == 2
    assert "pip install 'statsnet[cluster]'" in capsys.readouterr().err
