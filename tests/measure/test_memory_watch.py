"""A process that takes more memory than there is ends with the reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fake_tasks import Taking

from statsnet.errors import MeasurementError
from statsnet.measure import memory_watch
from statsnet.measure.forked_process import SWITCH
from statsnet.measure.memory_watch import resident_bytes
from statsnet.measure.process import run


@pytest.mark.parametrize("switch", ["0", "1"])
def test_a_process_that_takes_more_memory_than_was_at_hand(
    temporary_files: Path, switch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, switch)
    monkeypatch.setattr(memory_watch, "memory_at_hand_bytes", lambda: 1 << 28)
    with pytest.raises(MeasurementError, match="more memory than there is") as ended:
        run(Taking(megabytes=2000))
    assert "were at hand" in ended.value.cause
    assert list(temporary_files.iterdir()) == []


def test_what_a_process_has_started_counts() -> None:
    assert resident_bytes(os.getpid()) > 1 << 20
    assert resident_bytes(1 << 30) == 0
