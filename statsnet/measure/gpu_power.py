"""What a GPU drew while something ran, and how it was clocked: NVML's counters, through nvidia-ml-py."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from statsnet.signatures.gpu import Power

ATTEMPTS = 3
"""At a run in which the GPU is not slowed down."""

STEPS_S = 2.0
"""The energy counter moves every 20 to 100 ms."""

PERIOD_S = 0.1
"""Between two looks at the clocks; the energy is a counter, read at both ends."""

SLOWED = {"hw_slowdown": 0x8, "sw_thermal": 0x20, "hw_thermal": 0x40, "hw_power_brake": 0x80}
POWER_CAP = {"power_cap": 0x4}
"""NVML's reasons (nvmlClocksEventReason…) for which a GPU is clocked lower than it could be. Of heat and of trouble
with the supply it may recover; at the power cap it is held by what it runs, and will be again."""

RECORD = ("energy_j_per_step", "power_w", "sm_clock_mhz", "sm_clock_min_mhz", "temperature_c", "throttled")


class Meter:
    """`with Meter("cuda:0") as meter:` around what is measured, then `meter.record(steps)`. It may be entered again,
    for a process that has its turns: what lies outside is not counted.

    Never fails: what the device, its driver or a permission does not give is null, with the reason.
    """

    def __init__(self, device: str, period_s: float = PERIOD_S) -> None:
        self._device, self._period_s = device, period_s
        self._missing: dict[str, str] = {}
        self.why: dict[str, str] = {}
        self._clocks_mhz: list[int] = []
        self._temperatures_c: list[int] = []
        self._reasons: list[int] = []
        self._energy_mj: list[int] = []
        self._elapsed_s: list[float] = []

    def __enter__(self) -> Meter:
        self._nvml, self._handle, missing, why = _opened(self._device)
        self._missing |= missing
        self.why |= why
        if self._nvml is not None:
            self._over = threading.Event()
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._before_mj, self._begin_s = self._energy(), time.perf_counter()
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._nvml is None:
            return
        self._over.set()
        self._thread.join()
        after_mj = self._energy()
        if self._before_mj and after_mj:
            self._energy_mj.append(after_mj[0] - self._before_mj[0])
            self._elapsed_s.append(time.perf_counter() - self._begin_s)
        self._nvml.nvmlShutdown()

    def record(self, steps: int) -> dict[str, Any]:
        """RECORD's fields for so many steps, and `missing`: name -> why it is null. `throttled` names the reasons that
        were seen at any look."""
        found: dict[str, Any] = dict.fromkeys(RECORD)
        if self._energy_mj:
            energy_j = sum(self._energy_mj) / 1e3
            found["energy_j_per_step"] = energy_j / steps
            found["power_w"] = energy_j / sum(self._elapsed_s)
        if self._clocks_mhz:
            found["sm_clock_mhz"] = median(self._clocks_mhz)
            found["sm_clock_min_mhz"] = min(self._clocks_mhz)
        if self._temperatures_c:
            found["temperature_c"] = max(self._temperatures_c)
        if self._reasons:
            bits = {**SLOWED, **POWER_CAP}
            found["throttled"] = [n for n, bit in bits.items() if any(r & bit for r in self._reasons)]
        return {**found, "missing": self._missing}

    def _watch(self) -> None:
        self._look()
        while not self._over.wait(self._period_s):
            self._look()

    def _look(self) -> None:
        nvml, handle = self._nvml, self._handle
        self._ask("clocks", self._clocks_mhz, lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
        self._ask(
            "temperature",
            self._temperatures_c,
            lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        )
        self._ask("throttled", self._reasons, lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))

    def _energy(self) -> list[int]:
        """Millijoules since the driver was loaded; empty where it does not say."""
        found: list[int] = []
        self._ask("energy", found, lambda: self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))
        return found

    def _ask(self, name: str, kept: list[int], question: Callable[[], int]) -> None:
        try:
            kept.append(question())
        except self._nvml.NVMLError as error:
            self._missing[name] = str(error)
            self.why[name] = _why(self._nvml, error)


def slowed_down(record: Mapping[str, Any]) -> bool:
    """Whether heat or the supply slowed the GPU at any look."""
    return bool(SLOWED.keys() & {*(record["throttled"] or ())})


def drawn_by(step: Callable[[], object], device: str, *, time_s: float = STEPS_S) -> Power:
    """What the GPU draws while it makes the step again and again. A run in which it was slowed down is made again,
    ATTEMPTS times in all; the last one's `throttled` says so if it was in each."""
    import torch

    for _ in range(ATTEMPTS):
        with Meter(device) as meter:
            steps, end = 0, time.perf_counter() + time_s
            while steps == 0 or time.perf_counter() < end:
                step()
                torch.cuda.synchronize(device)
                steps += 1
        record = meter.record(steps)
        if not slowed_down(record):
            break
    fields = {name: record[name] for name in RECORD if name != "throttled"}
    throttled = record["throttled"]
    return Power(**fields, throttled=None if throttled is None else tuple(throttled), missing=meter.why)


def _why(nvml: Any, error: Exception) -> str:
    """A word of WHY_MISSING for an error of NVML."""
    words = {"NVML_ERROR_NOT_SUPPORTED": "not_supported", "NVML_ERROR_NO_PERMISSION": "not_permitted"}
    known = {getattr(nvml, name, None): word for name, word in words.items()}
    return known.get(getattr(error, "value", -1), "failed")


def _opened(device: str) -> tuple[Any, Any, dict[str, str], dict[str, str]]:
    """NVML, the GPU's handle there, and no reason; or neither, and why in a sentence and in a word."""
    import torch

    try:
        import pynvml
    except ImportError:
        reason = "nvidia-ml-py is not installed (pip install 'statsnet[gpu]')"
        return None, None, {"nvml": reason}, {"nvml": "not_installed"}
    try:
        pynvml.nvmlInit()
        uuid = str(torch.cuda.get_device_properties(device).uuid)  # NVML may number GPUs unlike CUDA
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
    except pynvml.NVMLError as error:
        return None, None, {"nvml": str(error)}, {"nvml": _why(pynvml, error)}
    return pynvml, handle, {}, {}
