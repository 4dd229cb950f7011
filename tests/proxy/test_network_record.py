"""The environment record is the same, whether a generated network writes it or the package does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from forked_programs import without_ours

from statsnet.environment import record
from statsnet.evaluation.compare import compare
from statsnet.measure.process import measuring_environment
from statsnet.proxy.run_file import run_source
from statsnet.signatures.results import Result, Subject
from statsnet.signatures.timing import Timing

VARIABLES = {"MKL_CBWR": "COMPATIBLE", "OMP_PLACES": "/home/me/places", "KMP_INIT_AT_FORK": "FALSE"}
PROC_DRIVER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC version: 13.3.0"


@pytest.mark.parametrize(
    ("mode", "allocator"), [("inference", {"STATSNET_ALLOCATOR": "system"}), ("training", {"MALLOC_TOP_PAD_": "1"})]
)
def test_a_network_that_runs_by_itself_writes_what_the_package_does(
    mode: str,
    allocator: dict[str, str],
    write_source: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "network.py").write_text(write_source(mode), encoding="utf-8")
    (tmp_path / "run.py").write_text(run_source(), encoding="utf-8")
    variables = {**without_ours(), **VARIABLES, **allocator}
    words = [sys.executable, "-I", "network.py", "--json", "-", "--min-time", "0.02", "--max-time", "0.1"]
    done = subprocess.run(words, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=600, check=True)
    result = json.loads(done.stdout)
    assert (result["kind"], result["schema_version"]) == ("statsnet.result", 1)
    assert result["subject"] == {"type": "proxy", "id": "sha256:0", "mode": mode}
    assert min(result["processes"][0]["latency_s"]) > 0
    for name in os.environ.keys() - variables.keys():
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert result["environment"] == json.loads(json.dumps(measuring_environment()))
    assert result["environment"]["settings"]["OMP_PLACES"] == "other"


class FakeNvml(SimpleNamespace):
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVMLError = 1, 2, OSError

    def __getattr__(self, name: str) -> Callable[..., Any]:
        answers = {"DriverVersion": "580.65.06", "MaxClockInfo": 1980, "EnforcedPowerLimit": 700_000}
        return lambda *_: next((v for k, v in answers.items() if name.endswith(k)), None)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(
        name="NVIDIA H200", total_memory=150 * 10**9, major=9, minor=0, multi_processor_count=132, uuid="1234"
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    for name, value in {**record.ALLOCATOR_ENV, **VARIABLES, "NVIDIA_TF32_OVERRIDE": "0"}.items():
        monkeypatch.setenv(name, value)


def test_what_only_a_gpu_reads_says_nothing_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """monai, for one, sets it when it is imported: amid a measurement."""
    before = record.describe()
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    assert record.describe() == before


@pytest.mark.usefixtures("gpu")
class TestOnAGpu:
    @pytest.mark.parametrize("device", ["cuda", "cuda:0"])
    def test_both_are_equal(self, device: str, load: Any) -> None:
        ours = load(run_source()).describe(device)
        assert ours == measuring_environment(device)
        assert ours["gpu"]["power_limit_w"] == 700
        assert ours["settings"]["float32_matmul_precision"] == "high"
        assert ours["settings"]["NVIDIA_TF32_OVERRIDE"] == "0"

    def test_one_without_nvml_is_the_same_device(self, load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        network = load(run_source())
        theirs = measuring_environment("cuda")
        monkeypatch.setitem(sys.modules, "pynvml", None)
        for driver in ("", PROC_DRIVER):
            monkeypatch.setattr(
                network, "file_text", lambda path, text=driver: text if "nvidia" in path else record.file_text(path)
            )
            ours = network.describe("cuda")
            assert ours["driver"] == (theirs["driver"] if driver else None)
            assert compare(result_in(ours), result_in(theirs)).differences == []


def result_in(environment: dict[str, Any]) -> Result:
    process = Timing(latency_s=(1.0,) * 10, warmup_latency_s=(), stable=True, warnings=())
    subject = Subject(type="proxy", id="sha256:" + "0" * 64, mode="inference")
    return Result(subject=subject, environment=environment, processes=(process,))
