"""A process that takes more memory than there is ends with the reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_tasks import Taking

from statsnet.errors import MeasurementError
from statsnet.measure import memory_watch
from statsnet.measure.forked_process import SWITCH
from statsnet.measure.memory_watch import taken_bytes
from statsnet.measure.process import run


@pytest.mark.parametrize("switch", ["0", "1"])
def test_a_process_that_takes_more_memory_than_was_at_hand(
    temporary_files: Path, switch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, switch)
    monkeypatch.setattr(memory_watch, "memory_at_hand_bytes", lambda: 1 << 28)
    with pytest.raises(MeasurementError, match="more memory than there is") as ended:
        run(Taking(megabytes=500, stays=True))
    assert "were at hand" in ended.value.cause
    assert list(temporary_files.iterdir()) == []


def test_a_process_goes_on_where_others_have_freed_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    at_hand = iter([1 << 28])
    monkeypatch.setattr(memory_watch, "memory_at_hand_bytes", lambda: next(at_hand, 1 << 34))
    run(Taking(megabytes=1000))


FAMILY = """
import os, sys
data = bytearray(b"1") * (100 << 20)
if all(os.fork() for _ in range(4)):
    print(flush=True)
sys.stdin.read()
"""
"""Five processes that share 100 MiB."""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the kernel does not count shared pages")
def test_what_processes_share_counts_once() -> None:
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        first.stdout.readline()
        assert 100 << 20 < taken_bytes(first.pid) < 200 << 20


def test_what_a_process_has_started_counts() -> None:
    assert taken_bytes(os.getpid()) > 1 << 20
    assert taken_bytes(1 << 30) == 0
