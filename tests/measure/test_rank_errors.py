"""Errors of processes that run a step together, in plain words, and told by one of them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from torch.distributed import TCPStore

from statsnet.errors import ProcessError, StatsNetError, WorkloadError
from statsnet.measure import rank_errors
from statsnet.measure.rank_errors import in_plain_words, to_tell, without_callbacks

STEP = "rank 1 of 2: a step of 'train.py:make' failed"
WAITED = (
    "RuntimeError: [/gloo/buffer.cc:78] Timed out waiting 5000ms for recv operation to complete (train.py, line 11)"
)
LOST = "RuntimeError: [/gloo/pair.cc:553] Connection closed by peer [127.0.0.1]:427. GLHF! (train.py, line 19)"
CLOSED = "RuntimeError: Application timeout caused pair closure (train.py, line 11)"
ABORTED = (
    "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at pair.cc:456] "
    "op.preamble.length <= op.nbytes. 1000008 vs 8. Received data size doesn't match expected size."
)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (WorkloadError(STEP, cause=WAITED), "it waited in vain for another in a collective (train.py, line 11)"),
        (WorkloadError(STEP, cause=CLOSED), "it waited in vain for another in a collective (train.py, line 11)"),
        (WorkloadError(STEP, cause=LOST), "it lost the connection to another process in a collective (train.py, line"),
        (ProcessError("ended by SIGABRT", cause=ABORTED), "a message of 1000008 bytes where it expects 8"),
    ],
)
def test_no_words_of_the_library_are_left(error: StatsNetError, words: str) -> None:
    plain = in_plain_words(error)
    assert type(plain) is type(error) and plain.message == error.message
    assert words in plain.cause and "gloo" not in plain.cause and plain.hint


def test_futures_that_an_error_has_passed_are_left_out() -> None:
    passed = "RuntimeError: Got the following error when running the callback: "
    assert without_callbacks(3 * passed + WAITED) == WAITED


def test_a_fault_of_its_own_is_told_as_it_stands() -> None:
    own = WorkloadError(STEP, cause="ValueError: bad data", hint="look")
    assert in_plain_words(own) is own
    assert to_tell(own) is own  # of a process that is alone


def test_one_of_the_processes_of_torchrun_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=30))
    known = {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    for name, value in {**known, "TORCHELASTIC_RUN_ID": "x", "RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rank_errors.time, "sleep", lambda _: None)
    first, second = (to_tell(ProcessError("ended by SIGABRT", cause=ABORTED)) for _ in range(2))
    assert first is not None and first.message == "rank 0 of 2: ended by SIGABRT"
    assert second is None


def test_where_no_store_answers_every_process_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    monkeypatch.setattr(rank_errors.time, "sleep", lambda _: None)
    assert to_tell(WorkloadError(STEP, cause=WAITED)) is not None
