"""Fleets: a real Ray cluster of two nodes on this machine, by its engine and by the command line."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli_support import GOLDEN, command, environment, read, write_proxy
from engines import asked, check_engine, errand
from fake_tasks import Doubling, HangingOnce
from ray_clusters import TwoNodes, two_nodes

from statsnet.cli import main
from statsnet.environment import slug
from statsnet.errors import UsageError
from statsnet.measure import fleet, process, ray_cluster
from statsnet.measure.engine import Asked
from statsnet.measure.ray_cluster import RayCluster, connected
from statsnet.measure.ray_engine import RayEngine

QUICK = ("--preset", "tiny", "--min-time", "20ms")
FRESH = {"EXTRA": "1"}
"""With a variable of its own a process is not forked, so that nobody imports torch for it."""


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[TwoNodes, RayCluster]]:
    """One connection for all tests, so that workers stay."""
    pytest.importorskip("ray")
    with two_nodes() as nodes, connected(f"ray://{nodes.address}") as cluster:
        yield nodes, cluster


@pytest.fixture
def nodes(running: tuple[TwoNodes, RayCluster]) -> TwoNodes:
    return running[0].both()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def engine(running: tuple[TwoNodes, RayCluster], nodes: TwoNodes, said: list[str]) -> RayEngine:
    return RayEngine(running[1], said.append)


def test_a_driver_that_is_killed_goes_on_where_it_was(
    running: tuple[TwoNodes, RayCluster],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is killed as soon as the first signature is there, and started again when there is a second node."""
    nodes, _ = running
    words = ["profile", "recsys/nc*", "recsys/din", "-o", "db", "--preset", "tiny"]
    words += ["--min-time", "100ms", "--engine", f"ray://{nodes.address}"]
    driver = subprocess.Popen(command(*words), cwd=here, env=environment(here), stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    while "profiled into" not in (text := driver.stdout.readline()):
        assert text, "it ended before"
    driver.kill()
    driver.wait()
    driver.stdout.close()
    kept = {path: path.read_bytes() for path in here.rglob("*.inference.json")}

    nodes.both()
    monkeypatch.setattr(fleet, "ALIKE", 1e9)  # both are this machine, which the tests themselves slow down by turns
    monkeypatch.chdir(here)
    assert main(words) == 0
    told = capsys.readouterr()
    assert told.out.count("skipped, 'db' has its signature (preset tiny, batch") == len(kept) >= 1
    assert told.out.count("profiled into db/") == 2 - len(kept)
    assert {path: path.read_bytes() for path in kept} == kept
    found = sorted(here.rglob("*.inference.json"))
    assert [path.name.partition(".")[0] for path in found] == ["din", "ncf"]
    assert all(read(path)["measurements"][0]["reference"]["latency_s"] > 0 for path in found)


def test_a_cluster(engine: RayEngine, nodes: TwoNodes) -> None:
    check_engine(engine, nodes.locks)
    assert len(engine.find("cpu").places) == 2
    assert [each.why for each in engine.find("cuda").left_out] == ["it offers no GPU to Ray"] * 2
    with pytest.raises(UsageError, match="'cuda:1' is not a device of a fleet"):
        engine.find("cuda:1")


def test_a_proxy_on_every_kind_of_node(
    engine: RayEngine,
    nodes: TwoNodes,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(here)
    write_proxy(here / "p")
    other = nodes.add(MKL_CBWR="COMPATIBLE")
    quick = ("--min-time", "20ms", "--max-time", "50ms", "--processes", "2")
    words = [
        "run",
        "p",
        "--engine",
        f"ray://{nodes.address}",
        "--everywhere",
        "-o",
        "runs",
        "--json",
        "all.json",
        *quick,
    ]
    try:
        assert main(words) == 0
    finally:
        nodes.end(other)
    out = capsys.readouterr().out
    assert "MKL_CBWR=COMPATIBLE" in out
    assert "baseline" in out
    names = [row["name"] for row in read(here / "all.json")["results"]]
    assert sorted(names) == sorted(path.parent.name for path in here.glob("runs/*/p.json"))
    assert len(names) == 2
    assert main(words) == 0  # the other kind is gone, its result is not
    assert "kept, 'runs/" in capsys.readouterr().err


def worker_of(pid: int) -> int:
    """The Ray worker above a measuring process."""
    while not Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::"):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        assert pid > 1
    return pid


def test_a_worker_and_a_node_that_die_lose_nothing(
    engine: RayEngine, nodes: TwoNodes, said: list[str], tmp_path: Path
) -> None:
    """First the worker of one errand is killed, then the node of another; each of the five ends once."""
    first, second = (tmp_path / name for name in ("first", "second"))
    places = {place.id.partition("/")[0]: place for place in engine.find("cpu").places}
    dying = places.pop(nodes.second.node_id)
    (staying,) = places.values()
    errands = [
        Asked(errand=errand(HangingOnce(str(first)), env=FRESH), label="a killed one", places=(staying,)),
        Asked(errand=errand(HangingOnce(str(second)), env=FRESH), label="a cut one", places=(dying, staying)),
        *asked((dying, staying), *(errand(Doubling(float(n)), env=FRESH) for n in range(2))),
        Asked(errand=errand(Doubling(9.0), env=FRESH), label="one of the dead", places=(dying,)),
    ]
    done_to: set[Path] = set()

    def break_things(_progress: object) -> None:
        for file in (first, second):
            if file.exists() and file.read_text() and file not in done_to:
                done_to.add(file)
                if file == first:
                    os.kill(worker_of(int(file.read_text())), signal.SIGKILL)
                else:
                    nodes.end(nodes.second)

    ended = list(engine.run(errands, report=break_things))
    assert done_to == {first, second}
    assert sorted(done.index for done in ended) == [0, 1, 2, 3, 4]
    results = {done.index: done.result for done in ended}
    assert results[0] > 0
    assert results[1] > 0
    assert (results[2], results[3]) == ((0.0,), (2.0,))
    (lost,) = (done for done in ended if done.error is not None)
    assert (lost.index, lost.place) == (4, None)
    assert "no node is left that could measure one of the dead" in str(lost.error)
    assert "the same command goes on with what there is" in str(lost.error)
    assert any("the worker on" in text and "begins anew" in text for text in said)
    assert any("has ended while it measured a cut one" in text for text in said)


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
    ],
)  # fmt: skip
def test_what_no_fleet_can_do(failing: Callable[..., str], here: Path, words: list[str], said: str) -> None:
    write_proxy(here / "p")
    message = failing(*words, code=2)
    assert said in message and "try: " in message


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
