"""What the Ray engine makes of Ray's errors. Its nodes are made up; tests/cli/test_cli_fleet.py has real ones."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from engines import asked, errand
from fake_ray import DESCRIBED, TWO, Z80, FakeCluster, answer, exceptions
from fake_tasks import Doubling

import statsnet
from statsnet.errors import ModelError, StatsNetError, WorkloadError
from statsnet.measure import ray_cluster
from statsnet.measure.engine import Asked, Done, Fleet
from statsnet.measure.errand import Errand
from statsnet.measure.ray_cluster import _kept_off_stdout, connected
from statsnet.measure.ray_engine import RayEngine
from statsnet.measure.rounds import measuring_failed
from statsnet.measure.task import encode_error
from statsnet.progress import Report, silent


def found(*answers: bytes | Exception | None, **changes: Any) -> Fleet:
    return RayEngine(FakeCluster(*answers, **changes)).find("cpu")  # type: ignore[arg-type]


def ended(*answers: bytes | Exception, said: list[str], **changes: Any) -> tuple[FakeCluster, list[Done[Any]]]:
    """Of one errand on node-0; the first answer is its description."""
    cluster = FakeCluster(DESCRIBED, *answers, **changes)
    engine = RayEngine(cluster, said.append)  # type: ignore[arg-type]
    places = engine.find("cpu").places
    return cluster, list(engine.run(asked(places, errand(Doubling(1.0)))))


def left_out(fleet: Fleet) -> tuple[str, str]:
    assert not fleet.places
    (one,) = fleet.left_out
    return one.why, one.hint


def test_nodes_that_can_not_measure_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    why, hint = left_out(found(exceptions.RaySystemError("...\nModuleNotFoundError: No module named 'statsnet'")))
    assert why == "StatsNet is not installed there"
    assert f"pip install 'statsnet[cluster]=={statsnet.__version__}'" in hint
    why, _ = left_out(found(exceptions.RaySystemError("a page\nof text\nOSError: no disk")))
    assert why == "it could not describe itself (OSError: no disk)"
    gone = exceptions.RaySystemError("The node specified via NodeAffinitySchedulingStrategy doesn't exist any more or")
    assert left_out(found(gone))[0] == "it left, or has no room to describe itself"
    why, hint = left_out(found(None))
    assert why == "it did not describe itself within 120 s"
    assert "ray status" in hint
    why, hint = left_out(found(answer(result={"version": "0.0.1", "environment": Z80})))
    assert why == f"it has StatsNet 0.0.1, and this command is {statsnet.__version__}"
    for other in (b"plain", answer(result={"version": 7}), answer(notes=1), answer(error={"kind": "x"})):
        why, hint = left_out(found(other))
        assert why.startswith("it answers in another form (")
        assert hint == "install the same version of StatsNet there"
    why, hint = left_out(found(cpus=0.0))
    assert (why, hint) == ("it offers no CPU to Ray", "start it with `ray start --num-cpus N`")


def test_a_measurement_owns_its_node_and_what_looks_at_it_does_not() -> None:
    cluster, (done,) = ended(TWO, said=[])
    assert done.result == (2.0,)
    assert [share.cpus for share in cluster.sent] == [0.0, 2.0]


@pytest.mark.parametrize("other", [b"plain", answer(result=["two"]), answer(notes=1), answer(error={"kind": "x"})])
def test_an_answer_in_another_form_ends_its_errand_alone(other: bytes) -> None:
    _, (done,) = ended(other, said=[])
    assert done.error is not None
    assert done.error.message == "the result of errand 0 on node-0 has another form"
    assert done.error.hint == "install the same version of StatsNet there"


@dataclass(frozen=True, kw_only=True)
class Telling(Errand[tuple[str, ...]]):
    """Comes to the names of the devices that it ran on."""

    def run(self, report: Report = silent) -> tuple[str, ...]:
        raise NotImplementedError

    def environments(self, result: tuple[str, ...]) -> Sequence[dict[str, Any]]:
        return [{**Z80, "threads": 8, "device_name": name} for name in result]


@pytest.mark.parametrize("device_name", ["Z80", "Z8000"])
def test_a_node_whose_devices_differ_is_named(device_name: str) -> None:
    """A setting may change the number of threads."""
    engine = RayEngine(FakeCluster(DESCRIBED, answer(result=["Z80", device_name])))  # type: ignore[arg-type]
    (done,) = engine.run([Asked(errand=Telling(), label="errand 0", places=engine.find("cpu").places)])
    if device_name == "Z80":
        assert done.result == ("Z80", "Z80")
        return
    assert done.error is not None
    assert done.error.message == "errand 0 was measured on another device than node-0 has described"
    assert done.error.cause == "device_name: Z80 against Z8000"


def test_what_a_node_says_is_said_with_its_name() -> None:
    said: list[str] = []
    ended(answer(result=[2.0], notes=["another program measures"]), said=said)
    assert said == ["node-0: another program measures"]


@pytest.mark.parametrize("times", [1, 2])
def test_a_worker_that_is_killed_again_and_again_names_its_errand(times: int) -> None:
    said: list[str] = []
    killed = exceptions.OutOfMemoryError("Task was killed due to the node running low on memory.")
    _, (done,) = ended(*[killed] * times, TWO, said=said)
    assert said == ["the worker on node-0 was killed while it measured errand 0, which begins anew"]
    if times == 1:
        assert done.result == (2.0,)
        return
    assert isinstance(done.error, StatsNetError)
    assert done.error.message == "the workers that measured errand 0 were killed 2 times"
    assert "running low on memory" in done.error.cause
    assert "smaller preset" in done.error.hint


FULL = answer(error=encode_error(StatsNetError("could not write '/tmp/x'", cause="disk full", hint="free it")))
WRONG = answer(error=encode_error(WorkloadError("no such model")))
UNSEEN = answer(error=encode_error(measuring_failed("x", ModelError("30% cannot be told operator by operator"))))


@pytest.mark.parametrize(
    ("answers", "sent", "failed"),
    [
        ([FULL, TWO, TWO, TWO], "0111", set()),  # node-0 gets nothing more
        ([FULL, TWO, FULL, TWO], "0110", {0}),  # node-1 is no better at it
        ([WRONG, TWO, TWO], "010", {0}),
        ([UNSEEN, TWO, TWO], "010", {0}),
    ],
)
def test_what_one_node_cannot_measure_another_one_may(answers: list[bytes], sent: str, failed: set[int]) -> None:
    said: list[str] = []
    cluster = FakeCluster(*[DESCRIBED] * 2, *answers, *[DESCRIBED] * 2, nodes=2)
    engine = RayEngine(cluster, said.append)  # type: ignore[arg-type]
    errands = asked(engine.find("cpu").places, *[errand(Doubling(1.0))] * 3)
    done = list(engine.run(errands))
    assert "".join(share.node for share in cluster.sent[2:]) == sent
    assert sorted(each.index for each in done) == [0, 1, 2]
    assert {each.index for each in done if each.error is not None} == failed
    left_out = "node-0 is left out: it could not measure errand 0, which node-1 has measured: could not write '/tmp/x'"
    assert said == ([] if failed else [f"{left_out} (disk full); free it"])
    assert [str(each) for each in engine.find("cpu").left_out] == said  # a later call leaves it out, too


def test_an_errand_whose_last_node_ends_is_named() -> None:
    said: list[str] = []
    _, (done,) = ended(exceptions.WorkerCrashedError(), said=said, alive=False)
    assert done.error is not None
    assert done.error.message == "no node is left that could measure errand 0"
    assert done.error.cause == "node-0: it has ended while it measured errand 0"
    assert said == ["node-0 is left out: it has ended while it measured errand 0; look at its logs"]


def test_ray_is_kept_off_stdout_for_a_while_and_without_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """grpc, which the client needs, may not be there."""
    from ray._private import worker

    monkeypatch.setitem(sys.modules, "ray.util.client.logsclient", None)
    printing = worker.print_to_stdstream
    with _kept_off_stdout():
        assert worker.print_to_stdstream is not printing
    assert worker.print_to_stdstream is printing


def test_a_cluster_whose_head_ends_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray_cluster, "_reachable", str)
    monkeypatch.setattr(ray, "init", lambda **_: None)
    lost = ConnectionError('GRPC connection failed: <_InactiveRpcError\n\tdetails = "Socket closed"\n')
    with pytest.raises(StatsNetError, match="any more\ncause: Socket closed") as raised, connected("ray://h:1"):
        raise lost
    assert "the same command goes on with what is kept" in raised.value.hint
    with pytest.raises(BrokenPipeError), connected("ray://h:1"):  # of the output, as behind `| head`
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def test_a_command_that_ray_ends_leaves_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    with ray_cluster._told_if_ended():
        pass
    assert not capfd.readouterr().err
    program = "import os; from statsnet.measure.ray_cluster import _told_if_ended as t\nwith t(): os._exit(1)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert told.stderr.startswith("statsnet: the command was ended from outside: the Ray cluster does not answer")
    assert "goes on with what is kept" in told.stderr


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (exceptions.ObjectStoreFullError("x"), ("could not leave node-0", "object store there is full", "ray memory")),
        (exceptions.OutOfDiskError("x"), ("could not leave node-0", "object store there is full", "ray memory")),
        (
            exceptions.RayTaskError("f", "Traceback ...\nModuleNotFoundError: No module named 'mine'", None),
            ("node-0 could not measure errand 0", "No module named 'mine'", "install there what the workload needs"),
        ),
    ],
)
def test_an_error_of_ray_becomes_a_sentence(error: Exception, words: tuple[str, ...]) -> None:
    _, (done,) = ended(error, said=[])
    assert all(word in str(done.error) for word in words), str(done.error)
