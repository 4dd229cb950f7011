"""Nsight Compute's command."""

from __future__ import annotations

from pathlib import Path

import pytest

from statsnet.measure.ncu import RANGE, command, find_ncu, known_metrics, wanted
from statsnet.measure.ncu_csv import METRICS
from statsnet.signatures.gpu import COUNTERS


def test_only_counters_that_the_device_knows_are_asked_for() -> None:
    known = {"sm__warps_active", "dram__bytes_read"}
    assert wanted(known) == ["achieved_occupancy"]  # of dram_bytes one half is missing
    assert wanted(None) == [*COUNTERS]


def test_the_command_asks_for_every_metric_and_leaves_clocks_and_caches_alone() -> None:
    words = command("/usr/bin/ncu", COUNTERS, "log.csv")
    asked = words[words.index("--metrics") + 1].split(",")
    assert sorted(asked) == sorted(m for _, metrics in METRICS.values() for m in metrics)
    for option, value in (
        ("--clock-control", "none"),
        ("--cache-control", "none"),
        ("--nvtx-include", RANGE),
    ):
        assert words[words.index(option) + 1] == value


def test_what_ncu_knows_is_asked_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "ncu"
    fake.write_text("#!/bin/sh\necho 'Device NVIDIA H200'\necho 'sm__warps_active     # of warps'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert find_ncu() == str(fake)
    assert known_metrics(str(fake)) == {"sm__warps_active"}
    assert known_metrics(str(tmp_path / "gone")) is None
