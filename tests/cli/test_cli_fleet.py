"""Fleets: one real Ray cluster of two nodes on this machine for all tests, by its engine and by the command line."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_support import GOLDEN, WhenSaid, command, environment, member, read, write_proxy
from engines import asked, check_engine, errand
from fake_tasks import Doubling, HangingOnce
from ray_clusters import TwoNodes, two_nodes
from synthesis_builders import few_jumps

from statsnet.cli import main
from statsnet.errors import UsageError
from statsnet.measure import fleet
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.engine import Asked
from statsnet.measure.ray_cluster import RayCluster, connected
from statsnet.measure.ray_engine import RayEngine
from statsnet.measure.rounds_log import RoundsLog
from statsnet.synthesis import problem
from statsnet.synthesis.bench import live_bench, machine_speed
from statsnet.synthesis.bench.block_measurement import BlockMeasurement
from statsnet.synthesis.effort import EFFORTS, QUICK

NCF = member("recsys/ncf", 1.0, preset="tiny", batch=8)
FRESH = {"EXTRA": "1"}
"""With a variable of its own a process is not forked, so that nobody imports torch for it."""


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[TwoNodes, RayCluster]]:
    """One connection for all tests, so that workers stay."""
    pytest.importorskip("ray")
    with two_nodes() as nodes, connected(f"ray://{nodes.address}") as cluster:
        yield nodes, cluster


@pytest.fixture
def nodes(running: tuple[TwoNodes, RayCluster], here: Path, monkeypatch: pytest.MonkeyPatch) -> TwoNodes:
    monkeypatch.setattr(fleet, "ALIKE", 1e9)  # both are this machine, which the tests themselves slow down by turns
    monkeypatch.chdir(here)
    return running[0].both()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def engine(running: tuple[TwoNodes, RayCluster], nodes: TwoNodes, said: list[str]) -> RayEngine:
    return RayEngine(running[1], said.append)


def at_work(nodes: TwoNodes) -> dict[int, bytes]:
    """The cluster's workers that run an errand, and whatever they have started, with their command lines."""
    found: dict[int, bytes] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line, own = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
            works = line.startswith(b"ray::run_errand") or b"statsnet.measure.process" in line
            if works and str(nodes.locks).encode() in own:
                found[int(process.name)] = line
    return found


def killed_when(said: str, words: Sequence[str], here: Path, nodes: TwoNodes) -> set[int]:
    """Kill the command as soon as it says so and something works for it; returns what did."""
    before = at_work(nodes)
    driver = subprocess.Popen(
        command(*words), cwd=here, env=environment(here) | {"STATSNET_CACHE": os.environ["STATSNET_CACHE"]},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    with driver:
        assert driver.stdout is not None
        heard = [""]
        while said not in heard[-1]:
            heard.append(driver.stdout.readline())
            assert heard[-1], "".join(heard)
        working: set[int] = set()
        while not working and driver.poll() is None:  # it says so when it hands out work, which begins a moment later
            working = at_work(nodes).keys() - before.keys() - {driver.pid}
        driver.kill()
    assert working
    return working


def interrupt() -> None:
    raise KeyboardInterrupt


def test_a_profile_that_is_stopped_goes_on_where_it_was(
    running: tuple[TwoNodes, RayCluster],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is stopped as soon as the first signature is there, and started again when there is a second node."""
    nodes, _ = running
    monkeypatch.setattr(fleet, "ALIKE", 1e9)
    monkeypatch.chdir(here)
    words = ["profile", "recsys/nc*", "recsys/din", "-o", "db", "--preset", "tiny"]
    words += ["--min-time", "100ms", "--engine", f"ray://{nodes.address}"]
    with contextlib.redirect_stdout(WhenSaid("profiled into", interrupt)):
        assert main(words) == 130
    assert "the same command goes on with what is in 'db'" in capsys.readouterr().err
    kept = {path: path.read_bytes() for path in here.rglob("*.inference.json")}

    nodes.both()
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


def test_a_validation_goes_on_where_it_was_stopped(
    here: Path, nodes: TwoNodes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is stopped as soon as the first group is logged; then the fit is asked for, too."""
    write_proxy(here / "p", NCF)
    log, keep = here / "log.jsonl", RoundsLog._keep
    words = ["validate", "p", "--settings", "mkldnn=off", "--rounds", "1", "--resume", "log.jsonl", "--json", "v.json"]
    words += ["--min-time", "20ms", "--max-time", "50ms", "--engine", f"ray://{nodes.address}"]

    def keep_and_stop(*arguments: Any) -> None:
        keep(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as stopping:
        stopping.setattr(RoundsLog, "_keep", keep_and_stop)
        assert main(words) == 130
    assert "the same command goes on with the rounds in 'log.jsonl'" in capsys.readouterr().err
    (kept,) = log.read_text().splitlines()
    assert main([*words, "--fit"]) == 0
    first, second = log.read_text().splitlines()
    assert first == kept
    assert json.loads(first)["subject"] != json.loads(second)["subject"]
    validation = read(here / "v.json")["validation"]
    assert validation["fidelity"]["rounds"] == 1
    assert [row["name"] for row in validation["fidelity"]["settings"]] == ["mkldnn=off"]
    assert validation["fit"]["compression"] > 0


def kill_a_worker(nodes: TwoNodes) -> bool:
    """One that runs an errand, if there is one."""
    for pid, line in at_work(nodes).items():
        if line.startswith(b"ray::"):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def test_a_proxy_of_two_nodes(
    here: Path, nodes: TwoNodes, own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """First the command is killed while blocks are measured, then, of the same command, a worker. A third one makes the
    same proxy again of what was kept."""
    for module in (live_bench, problem):
        monkeypatch.setattr(module, "UNDERCUT", 1e9)  # the nodes disturb each other
    monkeypatch.setattr(machine_speed, "SPOILT", 1e9)
    monkeypatch.setitem(EFFORTS, "quick", replace(QUICK, candidates=24))
    few_jumps(monkeypatch)
    put, killed = MeasurementCache.put, list[bool]()

    def put_and_kill(cache: MeasurementCache, key: str, value: object) -> None:
        put(cache, key, value)
        if isinstance(value, BlockMeasurement) and not any(killed):
            killed.append(kill_a_worker(nodes))

    monkeypatch.setattr(MeasurementCache, "put", put_and_kill)
    shutil.copy(GOLDEN, here / "horcrux.json")
    words = ["synthesize", "--mix", "horcrux.json:1", "--effort", "quick", "--compression", "10", "-o", "p"]
    words += ["--mode", read(GOLDEN)["mode"], "--engine", f"ray://{nodes.address}"]
    working = killed_when("blocks, part", words, here, nodes)
    before = {path: path.read_bytes() for path in own_cache.glob("??/*.json")}
    assert before
    assert main(words) == 0
    said = capsys.readouterr().err
    assert killed[-1]
    assert re.search(r"was killed while it measured blocks, part \d of \d, which begins anew", said)
    kept = {path: path.read_bytes() for path in own_cache.glob("??/*.json")}
    assert {path: kept[path] for path in before} == before
    assert not working & at_work(nodes).keys(), "whoever worked for the killed one has ended"
    network = (here / "p" / "network.py").read_bytes()
    assert main(words) == 0
    assert (here / "p" / "network.py").read_bytes() == network
    assert {path: path.read_bytes() for path in own_cache.glob("??/*.json")} == kept, "nothing is measured again"
    logs = [path for path in nodes.locks.parent.glob("ray/session_*/logs/**/*") if path.is_file()]
    told = [line for path in logs for line in path.read_text(errors="replace").splitlines() if "horcrux" in line]
    assert logs
    assert not [line for line in told if " ".join(words[:3]) not in line], "but for the command line it has no name"


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
    assert "the same command goes on with what is kept" in str(lost.error)
    assert any("the worker on" in text and "begins anew" in text for text in said)
    assert any("has ended while it measured a cut one" in text for text in said)
