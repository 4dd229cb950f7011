"""What every engine does with errands, and errands for tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fake_tasks import Doubling, Environment, Killed, LockIsHeld, Refusing, Variable

from statsnet.errors import MeasurementError, WorkloadError
from statsnet.measure import process
from statsnet.measure.control import Control, Job
from statsnet.measure.engine import Asked, Engine, Place
from statsnet.measure.errand import RunJob
from statsnet.measure.fleet import kinds_of, of_one_kind
from statsnet.measure.task import Task
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
