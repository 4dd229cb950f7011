"""What a killed command leaves running is found."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from benchmarks import killed
from benchmarks.killed import _Place, _used_s


@pytest.mark.parametrize(("limit", "value"), [("PATIENCE_S", 0.0), ("LIVES_ON_S", -1.0)])
def test_a_process_that_lives_on_is_named(
    limit: str, value: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the patience is over, or when it has used the processor for too long."""
    monkeypatch.setattr(killed, limit, value)
    place = _Place(tmp_path)
    with subprocess.Popen(["sleep", "60"], env={**os.environ, "KILLED_MARK": place.mark}) as process:
        living = place._living()
        process.kill()
    assert living == [f"process {process.pid} lives on: sleep 60 "]
    assert place._living() == []
    assert _used_s(os.getpid()) > _used_s(process.pid) == 0.0
