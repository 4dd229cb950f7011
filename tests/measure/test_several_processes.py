"""A task in several processes: their ranks, and which of them is to blame if one fails."""

from __future__ import annotations

import queue
from contextlib import nullcontext

import pytest
from group_tasks import Ranks

from statsnet.errors import MeasurementError, ProcessError, StatsNetError, WorkloadError
from statsnet.measure import several_processes
from statsnet.measure.several_processes import _Ended, _outcome, run_in_group
from statsnet.progress import Progress

LOST = WorkloadError("a step failed", cause="RuntimeError: Connection closed by peer [127.0.0.1]:4711")
WAITED = WorkloadError("a step failed", cause="RuntimeError: Timed out waiting 4000ms for recv operation to complete")
OWN = WorkloadError("a step failed", cause="ValueError: bad data")


def outcome(monkeypatch: pytest.MonkeyPatch, *heard: Progress | _Ended[str], processes: int = 2) -> str:
    monkeypatch.setattr(several_processes, "OTHERS_S", 0.0)
    said: queue.SimpleQueue[Progress | _Ended[str]] = queue.SimpleQueue()
    for one in heard:
        said.put(one)
    return _outcome(said, processes, 4.0, lambda _: None)


def test_a_process_that_dies_is_named() -> None:
    with pytest.raises(ProcessError, match=r"rank 1 of 2: a measuring process failed \(exit code 3\)"):
        run_in_group(Ranks(dies=1), 2)


def test_the_first_result_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome(monkeypatch, Progress(stage="measuring"), _Ended(1, result="b"), _Ended(0, result="a")) == "a"


def test_who_fails_of_its_own_accord_is_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WorkloadError, match="rank 1 of 2: a step failed") as raised:
        outcome(monkeypatch, _Ended(0, error=LOST), _Ended(1, error=OWN))
    assert "bad data" in raised.value.cause


def test_who_does_not_answer_is_named_with_who_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MeasurementError, match="rank 1 did not answer") as raised:
        outcome(monkeypatch, _Ended(2, error=LOST), _Ended(0, error=WAITED), processes=3)
    assert "rank 0 waited 4 s" in raised.value.cause
    assert "--group-timeout" in raised.value.hint


def test_where_all_wait_for_each_other_the_first_timeout_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StatsNetError, match="a step failed") as raised:
        outcome(monkeypatch, _Ended(0, error=LOST), _Ended(1, error=WAITED))
    assert "waited in vain for another in a collective" in raised.value.cause and "gloo" not in raised.value.cause


@pytest.mark.parametrize("cause", ["TimeoutError: timed out", "ConnectionRefusedError: [Errno 111] Connection refused"])
def test_who_lost_a_server_of_its_own_is_to_blame(cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = WorkloadError("a step failed", cause=cause)
    with pytest.raises(WorkloadError, match="rank 1 of 2") as raised:
        outcome(monkeypatch, _Ended(0, error=LOST), _Ended(1, error=own))
    assert raised.value.cause == cause


@pytest.mark.parametrize("processes", [1, 2])
def test_a_lost_connection_is_no_timeout(processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that nobody says to have waited for is not told to have hung."""
    with pytest.raises(WorkloadError, match=f"rank 0 of {processes}: a step failed") as raised:
        outcome(monkeypatch, _Ended(0, error=LOST), processes=processes)
    assert raised.value.cause == LOST.cause


TAKEN = "The server socket has failed to listen. port: 29500, name: EADDRINUSE, message: address already in use"


@pytest.mark.parametrize("times", [1, 2])
def test_it_begins_once_more_where_its_port_was_taken_meanwhile(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ports: list[int] = []

    def run_at(port: int, *_: object) -> str:
        ports.append(port)
        if len(ports) <= times:
            raise WorkloadError("rank 0 of 2: a step failed", cause=TAKEN)
        return "measured"

    monkeypatch.setattr(several_processes, "_run_at", run_at)
    expected = nullcontext() if times == 1 else pytest.raises(WorkloadError, match="rank 0 of 2")
    with expected:
        assert run_in_group(Ranks(), 2) == "measured"
    assert len(ports) == 2
