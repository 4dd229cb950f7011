"""How sure a factor is, from what a fidelity run measured twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from timings import Timings
from turns import between_groups


def write_groups(path: Path, seconds: list[float], here: str) -> None:
    """Groups of one workload whose baseline takes a second and whose setting takes `seconds`."""
    rows = [
        {
            "subject": "w",
            "environment": here,
            "processes": {
                name: {"latency_s": [s], "steps": 3, "window_latency_s": [s] * 3}
                for name, s in (("baseline", 1.0), ("threads=1", there))
            },
        }
        for there in seconds
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_each_two_groups_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "times.jsonl"
    write_groups(path, [1.0, 1.1, 1.21], Timings(tmp_path / "none.jsonl").here)
    between_groups(path)
    first, second, *worst = capsys.readouterr().out.splitlines()
    assert first == "3 pairs of groups: median 10.0%, 95th percentile 19.9%"
    assert second.startswith("3 of them are further apart")  # turns without any scatter explain no difference
    assert worst[0].split() == ["21.0%", "w", "threads=1"]


def test_a_single_group_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "times.jsonl"
    write_groups(path, [1.5], Timings(tmp_path / "none.jsonl").here)
    with pytest.raises(SystemExit, match=r"nothing of this environment was measured more than once"):
        between_groups(path)
