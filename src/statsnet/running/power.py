"""What a GPU drew while something ran, and how it was clocked: NVML's counters, through nvidia-ml-py."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Any

PERIOD_S = 0.1
"""Between two looks at the clocks; the energy is a counter, read at both ends."""

SLOWED = {"hw_slowdown": 0x8, "sw_thermal": 0x20, "hw_thermal": 0x40, "hw_power_brake": 0x80}
POWER_CAP = {"power_cap": 0x4}
"""NVML's reasons (nvmlClocksEventReason…) for which a GPU is clocked lower than it could be. Of heat and of trouble
with the supply it may recover; at the power cap it is held by what it runs, and will be again."""

RECORD = ("energy_j_per_step", "power_w", "sm_clock_mhz", "sm_clock_min_mhz", "temperature_c", "throttled")


class Meter:
    """`with Meter("cuda:0") as meter:` around what is measured, then `meter.record(steps)`.

    Never fails: what the device, its driver or a permission does not give is null, with the reason.
    """

    def __init__(self, device: str, period_s: float = PERIOD_S) -> None:
        self._nvml, self._handle, self._missing = _opened(device)
        self._period_s = period_s
        self._over = threading.Event()
        self._clocks_mhz: list[int] = []
        self._temperatures_c: list[int] = []
        self._reasons: list[int] = []
        self._energy_mj: list[int] = []
        self._times_s: list[float] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Meter:
        if self._nvml is not None:
            self._read_energy()
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._nvml is None:
            return
        self._over.set()
        self._thread.join()
        self._read_energy()
        self._nvml.nvmlShutdown()

    def record(self, steps: int) -> dict[str, Any]:
        """RECORD's fields for so many steps, and `missing`: name -> why it is null. `throttled` names the reasons that
        were seen at any look."""
        found: dict[str, Any] = dict.fromkeys(RECORD)
        if len(self._energy_mj) == 2:
            energy_j = (self._energy_mj[1] - self._energy_mj[0]) / 1e3
            found["energy_j_per_step"] = energy_j / steps
            found["power_w"] = energy_j / (self._times_s[1] - self._times_s[0])
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

    def _read_energy(self) -> None:
        self._ask(
            "energy", self._energy_mj, lambda: self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)
        )
        self._times_s.append(time.perf_counter())

    def _ask(self, name: str, kept: list[int], question: Callable[[], int]) -> None:
        try:
            kept.append(question())
        except self._nvml.NVMLError as error:
            self._missing[name] = str(error)


def _opened(device: str) -> tuple[Any, Any, dict[str, str]]:
    """NVML, the GPU's handle there, and no reason; or neither, and why."""
    import torch

    try:
        import pynvml
    except ImportError:
        return None, None, {"nvml": "nvidia-ml-py is not installed (pip install 'statsnet[gpu]')"}
    try:
        pynvml.nvmlInit()
        uuid = str(torch.cuda.get_device_properties(device).uuid)  # NVML may number GPUs unlike CUDA
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
    except pynvml.NVMLError as error:
        return None, None, {"nvml": str(error)}
    return pynvml, handle, {}
