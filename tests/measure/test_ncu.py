"""Nsight Compute's command and its tables.

`ncu_raw.csv` is written from the tool's documentation (raw page, CSV, base units), not recorded on a GPU.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from statsnet.measure.ncu import METRICS, RANGE, command, find_ncu, known_metrics, read_table, wanted
from statsnet.signatures.gpu import COUNTERS

TABLE = Path(__file__).with_name("ncu_raw.csv").read_text(encoding="utf-8")
KNOWN = [
    "achieved_occupancy",
    "ipc",
    "l2_hit_rate",
    "warp_execution_efficiency",
    "dram_bytes",
    "stall_synchronization",
]


def test_values_are_parts_of_one_rates_and_bytes() -> None:
    gemm, relu = read_table(TABLE, KNOWN)
    assert gemm.name == "ampere_sgemm_128x64_nn"
    assert gemm.values == pytest.approx(
        {"achieved_occupancy": 0.375, "ipc": 2.25, "l2_hit_rate": 0.805, "warp_execution_efficiency": 1.0,
         "dram_bytes": 3e6, "stall_synchronization": 0.13}
    )  # fmt: skip
    assert relu.values["warp_execution_efficiency"] == 0.5
    assert relu.values["dram_bytes"] is None  # a part of the sum is n/a


def test_a_counter_that_the_table_lacks_is_not_known() -> None:
    (first, *_) = read_table(TABLE, ["sm_utilization"])
    assert first.values == {"sm_utilization": None}


@pytest.mark.parametrize("text", ["", "==ERROR== no kernels were profiled", "a,b\n1,2\n"])
def test_a_text_without_a_table_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no column"):
        read_table(text, KNOWN)


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
