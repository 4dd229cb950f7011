"""Counters from an `ncu` that is played: it runs what it is given, and writes a table.

The tables are written from the tool's documentation, not recorded on a GPU.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_tasks import Environment, Refusing

from statsnet.errors import MeasurementError
from statsnet.measure.ncu_csv import METRICS
from statsnet.measure.task import CountableTask
from statsnet.profiling.gpu_activity import Launch
from statsnet.profiling.hardware_counters import counters_of
from statsnet.progress import Progress
from statsnet.signatures.gpu import COUNTERS

NCU = """#!{python}
import os, subprocess, sys

words = sys.argv[1:]
if "--version" in words:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 36398880)")
elif "--query-metrics" in words:
    for name in {bases!r}:
        print(name.ljust(60), "what it counts")
else:
    place = words.index("--log-file") + 1
    assert os.environ["LC_ALL"] == "C"
    code = subprocess.call(words[place + 1 :])
    asked = words[words.index("--metrics") + 1].split(",")
    with open(words[place], "w") as log:
        if {refused!r}:
            log.write("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\\n")
            sys.exit(1)
        columns = ["ID", "Kernel Name", *asked]
        log.write("==PROF== Connected to process 1\\n")
        log.write(",".join(f'"{{c}}"' for c in columns) + "\\n" + ",".join('""' for _ in columns) + "\\n")
        for number, name in enumerate({kernels!r}):
            log.write(",".join(f'"{{c}}"' for c in (number, name, *("50" for _ in asked))) + "\\n")
    sys.exit(code)
"""
KERNELS = ["ampere_sgemm_128x64_nn", "void at::native::reduce_kernel<512>(int)"]
LAUNCHES = [
    Launch(cluster=0, family="cublas:gemm:f32:nn", time_s=3e-6),
    Launch(cluster=1, family="aten:reduce", time_s=1e-6),
]


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, refused: bool = False, kernels: list[str] = KERNELS
) -> None:
    bases = sorted({m.partition(".")[0] for name, (_, ms) in METRICS.items() for m in ms if name != "ipc"})
    folder.mkdir()
    program = folder / "ncu"
    program.write_text(NCU.format(python=sys.executable, bases=bases, refused=refused, kernels=kernels))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_a_step_is_counted_in_a_process_under_ncu(temporary_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(temporary_files / "bin", monkeypatch)
    shown: list[Progress] = []
    counters, why = counters_of(Environment(), LAUNCHES, 2, "ncu", report=shown.append)
    assert why == ""
    assert counters.tool == "ncu 2025.3.1.0"
    assert counters.clusters["l2_hit_rate"] == (0.5, 0.5)
    assert counters.clusters["dram_bytes"] == (100.0, 100.0)  # read and written
    assert counters.missing == {"ipc": "not_supported"}  # ncu did not know it
    assert "each kernel runs several times" in shown[0].stage
    assert [p.name for p in temporary_files.iterdir()] == ["bin"]


@pytest.mark.parametrize(
    ("fake", "task", "reason", "said"),
    [
        (None, Environment(), "not_installed", "ncu was not found"),
        ({"refused": True}, Environment(), "not_permitted", "NVreg_RestrictProfilingToAdminUsers=0"),
        ({}, Refusing(), "failed", "no such model"),
        ({"kernels": KERNELS[:1]}, Environment(), "mismatch", "2 were timed and 1 counted"),
        ({"kernels": []}, Environment(), "mismatch", "0 counted"),
    ],
)
def test_where_there_are_none_the_reason_is_told_or_raised(
    fake: dict[str, Any] | None,
    task: CountableTask[Any],
    reason: str,
    said: str,
    temporary_files: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if fake is None:
        monkeypatch.setenv("PATH", str(temporary_files))
        monkeypatch.setattr("statsnet.measure.ncu._PLACES", ())
    else:
        install(temporary_files / "bin", monkeypatch, **fake)
    counters, why = counters_of(task, LAUNCHES, 2, "auto")
    assert counters.clusters == {}
    assert counters.missing == dict.fromkeys(COUNTERS, reason)
    assert said in why
    with pytest.raises(MeasurementError) as error:
        counters_of(task, LAUNCHES, 2, "ncu")
    assert said in f"{error.value.message} {error.value.cause} {error.value.hint}"


def test_nothing_is_run_where_none_are_wanted() -> None:
    counters, why = counters_of(Refusing(), LAUNCHES, 2, "off")
    assert (counters.tool, counters.missing["ipc"], why) == (None, "off", "")


def test_a_step_in_one_piece_is_not_counted() -> None:
    """No kernel of it belongs to an operator, so nothing is run."""
    launches = [replace(launch, cluster=None) for launch in LAUNCHES]
    counters, why = counters_of(Refusing(), launches, 2, "auto")
    assert counters.missing["ipc"] == "mismatch"
    assert "in one piece" in why
    with pytest.raises(MeasurementError, match="no kernel belongs"):
        counters_of(Refusing(), launches, 2, "ncu")
