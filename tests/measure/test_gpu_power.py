"""Power, clocks and throttling of a GPU, from a driver library that is played."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console

from statsnet.measure import gpu_power as power
from statsnet.measure import turns
from statsnet.measure.gpu_power import Meter
from statsnet.reporting.results import result_report
from statsnet.signatures.conversion import plain
from statsnet.signatures.results import Result, Subject
from statsnet.signatures.storage import validate
from statsnet.signatures.timing import ProcessPower


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
    properties = SimpleNamespace(uuid="1234")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: properties)

    def put(*reasons: int) -> FakeNvml:
        fake = FakeNvml(*reasons)
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        return fake

    return put


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The GPU's steps take 10 ms each. The devices whose caches were flushed, in order."""
    flushed: list[str] = []

    def measure(_step: Any, *, device: str, **_: Any) -> dict[str, Any]:
        return {"latency_s": [0.01] * 5, "warmup_latency_s": [0.01], "stable": True, "warnings": []}

    def once(step: Callable[[], object], _device: str, _clock: Any) -> float:
        step()
        return 0.012

    monkeypatch.setattr(turns, "measure", measure)
    monkeypatch.setattr(turns, "time_once", once)
    monkeypatch.setattr(turns, "cache_flush", lambda device: partial(flushed.append, device))
    return flushed


def test_energy_is_what_the_counter_gained(driver: Callable[..., FakeNvml]) -> None:
    nvml = driver(0x1)  # idle is no trouble
    with Meter("cuda:0", period_s=60.0) as meter:
        meter._look()
    record = meter.record(steps=10)
    assert record.energy_j_per_step == pytest.approx(3.0)
    assert record.power_w > 0
    assert record.sm_clock_min_mhz <= record.sm_clock_mhz < 1980
    assert (record.temperature_c, record.throttled, record.missing) == (61, (), {})
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
    record = meter.record(steps=1)
    assert record.energy_j_per_step is record.power_w is None
    assert record.missing == {"energy": "Not Supported"}
    assert record.throttled == ("power_cap",)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with Meter("cuda") as meter:
        pass
    record = meter.record(steps=1)
    assert record.missing is not None
    assert "nvidia-ml-py" in record.missing["nvml"]
    assert record == ProcessPower(missing=record.missing)


@pytest.mark.parametrize(
    ("reasons", "attempts", "stable"),
    [
        ([0x0], 1, True),
        ([0x20, 0x40, 0x0], 3, True),
        ([0x20], turns.ATTEMPTS, False),
        ([0x4], 1, False),  # it would be held at its power cap again
    ],
)
def test_a_run_in_which_the_gpu_was_slowed_is_made_again(
    reasons: list[int], attempts: int, stable: bool, driver: Callable[..., FakeNvml], played: list[str]
) -> None:
    nvml = driver(*reasons)
    steps: list[int] = []
    timing = turns.measure_on_gpu(lambda: steps.append(0), "cuda:0")
    assert (timing.attempts, timing.stable) == (attempts, stable)
    assert any("throttled" in w for w in timing.warnings) is not stable
    assert timing.flushed_latency_s == (0.012,) * len(steps) == (0.012,) * 5
    assert played == ["cuda:0"] * 5
    assert nvml.open == 0


def test_what_lies_outside_a_processs_turns_is_not_counted(
    driver: Callable[..., FakeNvml], monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = driver(0x0)
    monkeypatch.setattr(turns, "WINDOW_S", 0.0)
    monkeypatch.setattr(turns, "warm_up", lambda *_, **__: ([0.01] * 3, True))
    monkeypatch.setattr(turns, "time_once", lambda *_: 0.01)

    def others_turn() -> Any:
        for _ in range(3):
            nvml.energy_mj += 1_000_000
            yield

    timing = turns.take_turns(lambda: None, others_turn(), lambda _: None, device="cuda:0")
    assert timing.power is not None
    assert timing.power.energy_j_per_step == pytest.approx(3 * 30.0 / len(timing.latency_s))
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
    drawn = power.drawn_by(lambda: made.append(0), "cuda:0", time_s=0.0)
    assert len(made) == power.ATTEMPTS  # it was too hot in each
    assert (drawn.throttled, drawn.sm_clock_mhz) == (("sw_thermal",), None)
    assert drawn.missing == {"clocks": "not_supported"}
    assert drawn.energy_j_per_step == pytest.approx(30.0)


def test_it_is_shown_and_fits_the_schema(driver: Callable[..., FakeNvml], played: list[str]) -> None:
    driver(0x0)
    result = Result(
        subject=Subject(type="proxy", id=None, mode="inference"),
        environment={"device": "cuda", "device_name": "NVIDIA H200"},
        processes=(turns.measure_on_gpu(lambda: None, "cuda:0"),),
    )
    assert validate(plain(result), "statsnet.result") == result
    console = Console(file=io.StringIO(), width=100)
    console.print(*result_report(result))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for text in ("energy per step", "5 J", "SM clock", "61 °C", "with L2 flushed", "12 ms"):
        assert text in shown
