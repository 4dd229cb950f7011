"""Both engines run errands alike: on this machine, and on a real Ray cluster of two nodes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_tasks import Doubling, Environment, HangingOnce, Killed, LockIsHeld, Refusing, Variable
from ray_clusters import TwoNodes, two_nodes

from statsnet.errors import MeasurementError, UsageError, WorkloadError
from statsnet.measure import process
from statsnet.measure.control import Control, Job
from statsnet.measure.engine import Asked, Engine, LocalEngine, Place
from statsnet.measure.errand import RunJob, decode_errand, encode_errand
from statsnet.measure.fleet import kinds_of, of_one_kind
from statsnet.measure.ray_cluster import connected
from statsnet.measure.ray_engine import RayEngine
from statsnet.measure.task import Task, to_json
from statsnet.workloads.settings import parse_settings


def errand(task: Task[Any], **control: Any) -> RunJob:
    return RunJob.of(Job(task, Control(**control)))


def asked(places: tuple[Place, ...], *errands: RunJob) -> list[Asked[Any]]:
    return [Asked(errand=each, label=f"errand {number}", places=places) for number, each in enumerate(errands)]


def check_engine(engine: Engine, locks: Path) -> None:
    """What every engine does."""
    fleet = engine.find("cpu")
    assert not fleet.left_out
    kind, _ = of_one_kind(fleet)
    assert {place.device for place in kind.places} == {"cpu"}
    # A process that is started elsewhere measures as one that is started here.
    here = process.measuring_environment("cpu")
    assert kind.places[0].environment["threads"] == here["threads"]
    assert len(kinds_of(fleet)) == 1

    (setting,) = parse_settings("mkl=compatible")
    errands = [
        errand(Doubling(21.0)),
        errand(Refusing()),
        errand(Killed()),
        errand(Variable("MKL_CBWR"), setting=setting),
        errand(LockIsHeld(str(locks))),
        errand(Environment()),
        errand(Environment()),
    ]
    ended = {done.index: done for done in engine.run(asked(kind.places, *errands))}
    assert sorted(ended) == list(range(len(errands)))
    assert ended[0].result == (42.0,)  # a tuple, as the task says
    refused = ended[1].error
    assert isinstance(refused, WorkloadError)
    assert (refused.message, refused.cause, refused.hint) == ("no such model", "it was never made", "make it")
    assert isinstance(ended[2].error, MeasurementError)
    assert "SIGKILL" in ended[2].error.message
    assert ended[3].result == "COMPATIBLE"
    assert ended[4].result is True
    pids = {ended[index].result["pid"] for index in (5, 6)}
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert all(done.place in kind.places for done in ended.values())


def test_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATSNET_DEVICE_LOCK", str(tmp_path))
    check_engine(LocalEngine(), tmp_path)


def test_an_errand_travels_as_data() -> None:
    sent = errand(Doubling(2.0), label="two")
    text = to_json(encode_errand(sent))
    assert to_json(encode_errand(decode_errand(json.loads(text)))) == text
    with pytest.raises(UsageError, match="is not an errand"):
        decode_errand({"class": "fake_tasks:Doubling", "fields": {"question": 1.0}})


@pytest.fixture(scope="module")
def nodes() -> Iterator[TwoNodes]:
    pytest.importorskip("ray")
    with two_nodes() as running:
        yield running


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def engine(nodes: TwoNodes, said: list[str]) -> Iterator[RayEngine]:
    with connected(f"ray://{nodes.address}") as cluster:
        yield RayEngine(cluster, said.append)


def test_a_cluster(engine: RayEngine, nodes: TwoNodes) -> None:
    check_engine(engine, nodes.locks)
    assert len(engine.find("cpu").places) == 2
    assert [each.why for each in engine.find("cuda").left_out] == ["it offers no GPU to Ray"] * 2
    with pytest.raises(UsageError, match="'cuda:1' is not a device of a fleet"):
        engine.find("cuda:1")


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
        Asked(errand=errand(HangingOnce(str(first))), label="a killed one", places=(staying,)),
        Asked(errand=errand(HangingOnce(str(second))), label="a cut one", places=(dying, staying)),
        *asked((dying, staying), *(errand(Doubling(float(n))) for n in range(2))),
        Asked(errand=errand(Doubling(9.0)), label="one of the dead", places=(dying,)),
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


def test_a_node_of_another_environment_is_named(engine: RayEngine, nodes: TwoNodes) -> None:
    node = nodes.add(OMP_NUM_THREADS="1", MKL_CBWR="COMPATIBLE")
    try:
        fleet = engine.find("cpu")
        assert len(kinds_of(fleet)) == 2
        kind, left_out = of_one_kind(fleet)
        (other,) = left_out
        assert other.why == "its environment is another (settings.MKL_CBWR: not set against COMPATIBLE)"
        named, _ = of_one_kind(fleet, other.hint.split()[1])
        assert named.places != kind.places
        with pytest.raises(UsageError, match="no node has the environment 'cpu-z80'"):
            of_one_kind(fleet, "cpu-z80")
    finally:
        nodes.end(node)
