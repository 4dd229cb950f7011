"""A GPU's power, clocks and temperature while something ran: NVML's counters, through nvidia-ml-py."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from statistics import median
from typing import Any

from statsnet.signatures.gpu import CounterName, Power, PowerField, Reason
from statsnet.signatures.timing import ProcessPower

ATTEMPTS = 3
"""A run in which the GPU was slowed down is repeated, up to this many runs in all."""

STEPS_S = 2.0
"""How long steps are repeated: the energy counter moves only every 20 to 100 ms."""

PERIOD_S = 0.1
"""Time between two looks at the clocks. Energy is a counter: it is read only at the start and at the end."""

SLOWED = {"hw_slowdown": 0x8, "sw_thermal": 0x20, "hw_thermal": 0x40, "hw_power_brake": 0x80}
POWER_CAP = {"power_cap": 0x4}
"""NVML's reasons (nvmlClocksEventReason…) why a GPU is clocked lower than it could be. A GPU may recover from heat and
from trouble with its supply. The power cap depends on what runs: the same run will reach it again."""


class Meter:
    """Put `with Meter("cuda:0") as meter:` around what is measured, then call `meter.record(steps)`. A process that
    takes turns enters it once per turn; what happens outside is not counted.

    Never fails: what the device, its driver or its permissions withhold is null, with the reason.
    """

    def __init__(self, device: str, period_s: float = PERIOD_S) -> None:
        self._device, self._period_s = device, period_s
        self._missing: dict[str, str] = {}
        self.why: dict[PowerField | CounterName, Reason] = {}
        self._clocks_mhz: list[int] = []
        self._temperatures_c: list[int] = []
        self._reasons: list[int] = []
        self._energy_mj: list[int] = []
        self._elapsed_s: list[float] = []

    def __enter__(self) -> Meter:
        self._open()
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

    def _open(self) -> None:
        """NVML and the GPU's handle, if there are any."""
        import torch

        self._nvml: Any = None
        try:
            import pynvml
        except ImportError:
            sentence = "nvidia-ml-py is not installed (pip install nvidia-ml-py)"
            self._withhold("nvml", sentence, "not_installed")
            return
        try:
            pynvml.nvmlInit()
            uuid = str(torch.cuda.get_device_properties(self._device).uuid)  # NVML may number GPUs unlike CUDA
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
            self._nvml = pynvml
        except pynvml.NVMLError as error:
            self._withhold("nvml", str(error), _why(pynvml, error))

    def record(self, steps: int) -> ProcessPower:
        """What was seen during this number of steps. `throttled` lists all reasons that were seen at any look."""
        energy_j = sum(self._energy_mj) / 1e3 if self._energy_mj else None
        bits = {**SLOWED, **POWER_CAP}
        seen = tuple(name for name, bit in bits.items() if any(r & bit for r in self._reasons))
        return ProcessPower(
            energy_j_per_step=None if energy_j is None else energy_j / steps,
            power_w=None if energy_j is None else energy_j / sum(self._elapsed_s),
            sm_clock_mhz=median(self._clocks_mhz) if self._clocks_mhz else None,
            sm_clock_min_mhz=min(self._clocks_mhz, default=None),
            temperature_c=max(self._temperatures_c, default=None),
            throttled=seen if self._reasons else None,
            missing=self._missing,
        )

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
        """Millijoules since the driver was loaded; empty if NVML does not say."""
        energy_mj: list[int] = []
        self._ask("energy", energy_mj, lambda: self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))
        return energy_mj

    def _ask(self, name: PowerField, answers: list[int], question: Callable[[], int]) -> None:
        try:
            answers.append(question())
        except self._nvml.NVMLError as error:
            self._withhold(name, str(error), _why(self._nvml, error))

    def _withhold(self, name: PowerField, sentence: str, word: Reason) -> None:
        self._missing[name], self.why[name] = sentence, word


def slowed_down(power: ProcessPower) -> bool:
    """Whether heat or the power supply slowed the GPU at any look."""
    return bool(SLOWED.keys() & {*(power.throttled or ())})


def drawn_by(step: Callable[[], object], device: str, *, time_s: float = STEPS_S) -> Power:
    """The GPU's power while the step is repeated. A run in which the GPU was slowed down is repeated, up to ATTEMPTS
    runs in all; if it was slowed down in every run, the last one's `throttled` says so."""
    import torch

    for _ in range(ATTEMPTS):
        with Meter(device) as meter:
            steps, end = 0, time.perf_counter() + time_s
            while steps == 0 or time.perf_counter() < end:
                step()
                torch.cuda.synchronize(device)
                steps += 1
        power = meter.record(steps)
        if not slowed_down(power):
            break
    return Power(**{**asdict(power), "missing": meter.why})


def _why(nvml: Any, error: Exception) -> Reason:
    """A word of WHY_MISSING for an error of NVML."""
    words: dict[str, Reason] = {
        "NVML_ERROR_NOT_SUPPORTED": "not_supported",
        "NVML_ERROR_NO_PERMISSION": "not_permitted",
    }
    known = {getattr(nvml, name, None): word for name, word in words.items()}
    return known.get(getattr(error, "value", -1), "failed")
