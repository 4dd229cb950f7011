"""Commands that pool the times of a fleet's nodes, on a real Ray cluster of two nodes on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_support import GOLDEN, member, read, write_proxy
from ray_clusters import TwoNodes, two_nodes

from statsnet.cli import main
from statsnet.measure import fleet
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.ray_cluster import RayCluster, connected
from statsnet.measure.rounds_log import RoundsLog
from statsnet.synthesis import live_bench, machine_speed, problem
from statsnet.synthesis.block_measurement import BlockMeasurement

NCF = member("recsys/ncf", 1.0, preset="tiny", batch=8)


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[TwoNodes, RayCluster]]:
    pytest.importorskip("ray")
    with two_nodes() as nodes, connected(f"ray://{nodes.address}") as cluster:
        yield nodes, cluster


@pytest.fixture
def nodes(running: tuple[TwoNodes, RayCluster], here: Path, monkeypatch: pytest.MonkeyPatch) -> TwoNodes:
    monkeypatch.setattr(fleet, "ALIKE", 1e9)  # both are this machine, which the tests themselves slow down by turns
    monkeypatch.chdir(here)
    return running[0].both()


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
    """One of this cluster's that runs an errand, if there is one."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            runs = (process / "cmdline").read_bytes().startswith(b"ray::run_errand")
            if runs and str(nodes.locks).encode() in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)
                return True
    return False


def test_a_proxy_of_two_nodes(
    here: Path, nodes: TwoNodes, own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker is killed while it measures blocks. The same command makes the same proxy again of what was kept."""
    for module in (live_bench, problem):
        monkeypatch.setattr(module, "UNDERCUT", 1e9)  # the nodes disturb each other
    monkeypatch.setattr(machine_speed, "SPOILT", 1e9)
    put, killed = MeasurementCache.put, list[bool]()

    def put_and_kill(cache: MeasurementCache, key: str, value: object) -> None:
        put(cache, key, value)
        if isinstance(value, BlockMeasurement) and not any(killed):
            killed.append(kill_a_worker(nodes))

    monkeypatch.setattr(MeasurementCache, "put", put_and_kill)
    shutil.copy(GOLDEN, here / "mine.json")
    words = ["synthesize", "--mix", "mine.json:1", "--effort", "quick", "--compression", "10", "-o", "p"]
    words += ["--mode", read(GOLDEN)["mode"], "--engine", f"ray://{nodes.address}"]
    assert main(words) == 0
    said = capsys.readouterr().err
    assert killed[-1]
    assert re.search(r"was killed while it measured blocks, part \d of \d, which begins anew", said)
    kept = {path: path.read_bytes() for path in own_cache.glob("??/*.json")}
    network = (here / "p" / "network.py").read_bytes()
    assert main(words) == 0
    assert (here / "p" / "network.py").read_bytes() == network
    assert {path: path.read_bytes() for path in own_cache.glob("??/*.json")} == kept, "nothing is measured again"


@pytest.mark.parametrize(
    ("words", "said"),
    [
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
def test_what_a_fleet_does_not_measure(failing: Callable[..., str], here: Path, words: list[str], said: str) -> None:
    write_proxy(here / "p")
    message = failing(*words, code=2)
    assert said in message and "try: " in message
