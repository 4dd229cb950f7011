"""Power, clocks and throttling of a GPU, from a driver library that is played."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console

from statsnet.measure import gpu_power as power
from statsnet.measure import timing_tasks as jobs
from statsnet.measure.gpu_power import Meter
from statsnet.reporting.results import result_report
from statsnet.signatures.validation import validate


class FakeNvml(SimpleNamespace):
    """One GPU. `reasons` are those of one run after the other; each look at the energy adds 30 J."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0

    def __init__(self, *reasons: int) -> None:
        super().__init__(reasons=[*reasons], energy_mj=0, clock_mhz=1980, open=0)

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1
        self.reasons.append(self.reasons.pop(0))

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        assert uuid == "GPU-1234"
        return uuid

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        self.energy_mj += 30_000
        return self.energy_mj

    def nvmlDeviceGetClockInfo(self, handle: str, clock: int) -> int:
        assert clock == self.NVML_CLOCK_SM
        self.clock_mhz -= 10
        return self.clock_mhz

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        return 61

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        return int(self.reasons[0])


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeNvml]:
    """Puts a driver in place whose runs see these reasons, and a CUDA device beside it."""
    properties = SimpleNamespace(uuid="1234", L2_cache_size=1024)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: properties)

    def put(*reasons: int) -> FakeNvml:
        fake = FakeNvml(*reasons)
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        return fake

    return put


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The GPU's steps take 10 ms each; what is allocated on it, is on the CPU. The sizes of what is allocated."""
    allocated: list[int] = []

    def empty(size: int, *, dtype: torch.dtype, device: str) -> torch.Tensor:
        allocated.append(size)
        return torch.zeros(size, dtype=dtype)

    def measure(_step: Any, *, device: str, **_: Any) -> dict[str, Any]:
        return {"latency_s": [0.01] * 5, "warmup_latency_s": [0.01], "stable": True, "warnings": []}

    def once(step: Callable[[], object], _device: str, _clock: Any) -> float:
        step()
        return 0.012

    monkeypatch.setattr(jobs, "measure", measure)
    monkeypatch.setattr(jobs, "time_once", once)
    monkeypatch.setattr(jobs.torch, "empty", empty)
    return allocated


def test_energy_is_what_the_counter_gained(driver: Callable[..., FakeNvml]) -> None:
    nvml = driver(0x1)  # idle is no trouble
    with Meter("cuda:0", period_s=60.0) as meter:
        meter._look()
    found = meter.record(steps=10)
    assert found["energy_j_per_step"] == pytest.approx(3.0)
    assert found["power_w"] > 0
    assert found["sm_clock_min_mhz"] <= found["sm_clock_mhz"] < 1980
    assert (found["temperature_c"], found["throttled"], found["missing"]) == (61, [], {})
    assert nvml.open == 0


def test_what_a_gpu_does_not_tell_is_null_with_the_reason(
    driver: Callable[..., FakeNvml], monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = driver(0x4)

    def refuse(_handle: str) -> int:
        raise nvml.NVMLError("Not Supported")

    nvml.nvmlDeviceGetTotalEnergyConsumption = refuse
    with Meter("cuda") as meter:
        pass
    found = meter.record(steps=1)
    assert found["energy_j_per_step"] is found["power_w"] is None
    assert found["missing"] == {"energy": "Not Supported"}
    assert found["throttled"] == ["power_cap"]
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with Meter("cuda") as meter:
        pass
    found = meter.record(steps=1)
    assert {found[name] for name in power.RECORD} == {None}
    assert "nvidia-ml-py" in found["missing"]["nvml"]


@pytest.mark.parametrize(
    ("reasons", "attempts", "stable"),
    [
        ([0x0], 1, True),
        ([0x20, 0x40, 0x0], 3, True),
        ([0x20], jobs.ATTEMPTS, False),
        ([0x4], 1, False),  # it would be held at its power cap again
    ],
)
def test_a_run_in_which_the_gpu_was_slowed_is_made_again(
    reasons: list[int], attempts: int, stable: bool, driver: Callable[..., FakeNvml], played: list[int]
) -> None:
    nvml = driver(*reasons)
    steps: list[int] = []
    process = jobs.measure_on_gpu(lambda: steps.append(0), "cuda:0")
    assert (process["attempts"], process["stable"]) == (attempts, stable)
    assert any("throttled" in w for w in process["warnings"]) is not stable
    assert process["flushed_latency_s"] == [0.012] * len(steps) == [0.012] * 5
    assert played == [2048]
    assert nvml.open == 0


def test_what_lies_outside_a_processs_turns_is_not_counted(
    driver: Callable[..., FakeNvml], monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = driver(0x0)
    monkeypatch.setattr(jobs, "WINDOW_S", 0.0)
    monkeypatch.setattr(jobs, "warm_up", lambda *_, **__: ([0.01] * 3, True))
    monkeypatch.setattr(jobs, "time_once", lambda *_: 0.01)

    def others_turn() -> Any:
        for _ in range(3):
            nvml.energy_mj += 1_000_000
            yield

    process = jobs.take_turns(lambda: None, others_turn(), lambda _: None, device="cuda:0")
    steps = len(process["latency_s"])
    assert process["power"]["energy_j_per_step"] == pytest.approx(3 * 30.0 / steps)
    assert nvml.open == 0


def test_a_profile_keeps_power_in_words_that_may_be_shared(
    driver: Callable[..., FakeNvml], monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = driver(0x20, 0x20, 0x20)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _device: None)
    nvml.NVML_ERROR_NOT_SUPPORTED = 3

    def refuse(_handle: str, _clock: int) -> int:
        error = nvml.NVMLError("Not Supported on this board of ours")
        error.value = 3  # type: ignore[attr-defined]
        raise error

    nvml.nvmlDeviceGetClockInfo = refuse
    made: list[int] = []
    found = power.drawn_by(lambda: made.append(0), "cuda:0", time_s=0.0)
    assert len(made) == power.ATTEMPTS  # it was too hot in each
    assert (found.throttled, found.sm_clock_mhz) == (("sw_thermal",), None)
    assert found.missing == {"clocks": "not_supported"}
    assert found.energy_j_per_step == pytest.approx(30.0)


def test_it_is_shown_and_fits_the_schema(driver: Callable[..., FakeNvml], played: list[int]) -> None:
    driver(0x0)
    process = jobs.measure_on_gpu(lambda: None, "cuda:0")
    result = {
        "kind": "statsnet.result", "schema_version": 1,
        "subject": {"type": "proxy", "id": None, "mode": "inference"},
        "environment": {"device": "cuda", "device_name": "NVIDIA H200"}, "processes": [process],
    }  # fmt: skip
    validate(result, "statsnet.result")
    console = Console(file=io.StringIO(), width=100)
    console.print(*result_report(result))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for text in ("energy per step", "5 J", "SM clock", "61 °C", "with L2 flushed", "12 ms"):
        assert text in shown
