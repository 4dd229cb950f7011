"""What the Ray engine makes of nodes that other Ray jobs hold, and how a node tells who is at work there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from engines import asked, errand
from fake_ray import DESCRIBED, TWO, FakeCluster
from fake_tasks import Doubling

from statsnet.measure import ray_held
from statsnet.measure.engine import Done
from statsnet.measure.ray_engine import RayEngine
from statsnet.measure.ray_held import AtWork

STEP = "step (python train.py)"
HELD = AtWork(own=(), others=(STEP,))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_held, "BEGINS_WITHIN_S", 0.0)
    monkeypatch.setattr(ray_held, "HELD_LIMIT_S", 0.0)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.mark.parametrize("places", [1, 2])
def test_a_node_that_another_job_holds_is_named(places: int, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another node does what it could not begin; what only this one can do waits no longer than the limit."""
    if places == 2:
        monkeypatch.setattr(ray_held, "HELD_LIMIT_S", 1e9)
    cluster = FakeCluster(*[DESCRIBED] * 2, None, TWO, nodes=2, work={"0": HELD})
    engine = RayEngine(cluster, said.append)  # type: ignore[arg-type]
    (done,) = engine.run(asked(engine.find("cpu").places[:places], errand(Doubling(1.0))))
    assert said[0].startswith(f"node-0 is held by another Ray job: {STEP}; other nodes measure meanwhile")
    if places == 2:
        assert done.result == (2.0,)
        assert len(said) == 1
        return
    assert done.error is not None
    assert done.error.message == "no node is left that could measure errand 0"
    assert "node-0 is left out: another Ray job has held it for" in said[1]


def run_until(turn: int, cluster: FakeCluster, said: list[str]) -> Done[Any]:
    """How an errand ends that is answered in this turn."""
    turns = count()

    def answer_at_last(_progress: object) -> None:
        if next(turns) == turn:
            cluster.answer_all(TWO)

    engine = RayEngine(cluster, said.append)  # type: ignore[arg-type]
    (done,) = engine.run(asked(engine.find("cpu").places, errand(Doubling(1.0))), report=answer_at_last)
    return done


def test_while_all_nodes_are_held_a_command_waits(said: list[str]) -> None:
    cluster = FakeCluster(DESCRIBED, None, work={"0": HELD})
    assert run_until(5, cluster, said).result == (2.0,)
    assert len(said) == 1
    assert len(cluster.sent) == 2


def test_what_ends_while_its_node_is_looked_at_is_not_repeated(said: list[str]) -> None:
    cluster = FakeCluster(*[DESCRIBED] * 2, None, nodes=2, work={"0": HELD})

    def note(text: str) -> None:
        said.append(text)
        cluster.answer_all(TWO)

    engine = RayEngine(cluster, note)  # type: ignore[arg-type]
    (done,) = engine.run(asked(engine.find("cpu").places, errand(Doubling(1.0))))
    assert done.result == (2.0,)
    assert len(said) == 1
    assert len(cluster.sent) == 3


def test_what_has_begun_is_left_alone(said: list[str]) -> None:
    begun = AtWork(own=("run_errand-0",), others=(STEP,))
    cluster = FakeCluster(*[DESCRIBED] * 2, None, nodes=2, work={"0": begun})
    assert run_until(5, cluster, said).result == (2.0,)
    assert said == []
    assert len(cluster.sent) == 3
    assert len(cluster.looks) == 1


def test_a_node_that_does_not_tell_its_work_has_one_question_at_a_time(said: list[str]) -> None:
    cluster = FakeCluster(*[DESCRIBED] * 2, None, nodes=2)
    assert run_until(3, cluster, said).result == (2.0,)
    assert said == []
    assert len(cluster.sent) == 3
    assert len(cluster.looks) == 3
    assert cluster.ended == cluster.looks


def test_a_node_that_does_not_describe_itself_says_who_uses_it() -> None:
    (left_out,) = RayEngine(FakeCluster(None, work={"0": HELD})).find("cpu").left_out  # type: ignore[arg-type]
    assert left_out.why == f"it did not describe itself within 120 s; others use it: {STEP}"


@dataclass(frozen=True)
class Worker:
    """A process that Ray has started on this node."""

    title: str
    job: str | None

    def parent(self) -> Any:
        return SimpleNamespace(children=lambda: WORKERS)

    def cmdline(self) -> list[str]:
        return [self.title, ""]

    def environ(self) -> dict[str, str]:
        return {"RAY_JOB_ID": self.job} if self.job else {}


WORKERS = [
    Worker("ray::at_work-ab", "ffffffff"),
    Worker("ray::run_errand-0-ab", "ffffffff"),
    Worker("ray::run_errand-0-cd", "02000000"),
    Worker("ray::step", "ffffffff"),
    Worker("ray::IDLE", "02000000"),
    Worker("ray::RuntimeEnvAgent", None),
    Worker("python", "02000000"),
]


def test_a_node_tells_our_tasks_from_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where their workers were started before any job."""
    monkeypatch.setattr("psutil.Process", lambda: WORKERS[0])
    monkeypatch.setattr(ray_held, "_commands", lambda: {"02000000": "statsnet profile"})
    assert ray_held.at_work("-ab") == (["run_errand-0"], ["run_errand-0-cd (statsnet profile)", "step"])


def test_reservations_that_have_ended_hold_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = {
        "a1": {"name": "trainer", "state": "CREATED", "bundles_to_node_id": {0: "there", 1: "elsewhere"}},
        "a2": {"name": "", "state": "CREATED", "bundles_to_node_id": {0: "there"}},
        "a3": {"name": "last night's", "state": "REMOVED", "bundles_to_node_id": {0: "there"}},
        "a4": {"name": "waiting", "state": "PENDING", "bundles_to_node_id": {0: ""}},
    }
    monkeypatch.setattr("ray.util.placement_group_table", lambda: groups)
    assert [*ray_held._reservations("there")] == ["placement group trainer", "placement group a2"]
