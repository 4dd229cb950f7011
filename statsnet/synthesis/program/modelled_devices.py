"""Modelled devices: the proxy's time should follow the suite's even where the proxy was never measured.

There are two families. Rooflines scale an operator's measured time by its roofline time on the device ÷ that on the
machine where it was measured, for a range of compute : bandwidth : launch cost (Williams, Waterman and Patterson, CACM
2009). Random devices give every shape of every kernel class a factor of its own, for differences that rooflines cannot
express. None of these is a real device, and nothing that checks fidelity is used here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from statsnet.synthesis.costs.loads import OperatorGroup, OperatorTable, StepLoad

COMPUTE_FACTORS = (0.25, 1.0, 4.0, 16.0)
BANDWIDTH_FACTORS = (0.5, 1.0, 4.0)
LAUNCH_FACTORS = (0.0, 5e-6)
RANDOM_DEVICES = 24
RANDOM_SPREAD = 0.7
"""Standard deviation of the natural logarithm of a class's random factor."""


@dataclass(slots=True, kw_only=True)
class ModelledDevice:
    """`target_s` is the modelled time of one second of the target, by which modelled times are normalised."""

    compute: float = 1.0
    bandwidth: float = 1.0
    launch_s: float = 0.0
    seed: int | None = None
    ridge: float = 1.0
    target_s: float = 1.0
    _factors: dict[str, float] = field(default_factory=dict)

    def time_s(self, operators: OperatorTable) -> np.ndarray:
        """Seconds of each group."""
        if self.seed is not None:
            factors = np.array([self._random_factor(shape) for shape in operators.shapes])
            return operators.time_s * factors[operators.shape]
        here = np.maximum(operators.flops / self.ridge, operators.bytes)
        there = np.maximum(operators.flops / self.ridge / self.compute, operators.bytes / self.bandwidth)
        factor = np.divide(there, here, out=np.full(len(here), 1.0 / self.bandwidth), where=here > 0)
        return operators.time_s * factor + operators.calls * self.launch_s

    def _random_factor(self, name: str) -> float:
        """Log-normal, the same for a name and seed everywhere."""
        if name not in self._factors:
            digest = hashlib.sha256(f"{self.seed}:{name}".encode()).digest()
            u = (int.from_bytes(digest[:8], "big") + 1) / (2**64 + 2)
            v = int.from_bytes(digest[8:16], "big") / 2**64
            normal = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)
            self._factors[name] = math.exp(RANDOM_SPREAD * normal)
        return self._factors[name]


def modelled_devices(groups: Sequence[OperatorGroup]) -> list[ModelledDevice]:
    """Devices for a target. The ridge point (FLOP/byte) is that of the machine where the target was measured: the
    ratio of the highest FLOP rate and byte rate that a hundredth of its time reaches."""
    ridge = _ridge(groups)
    devices = [
        ModelledDevice(compute=c, bandwidth=b, launch_s=launch, ridge=ridge)
        for c in COMPUTE_FACTORS
        for b in BANDWIDTH_FACTORS
        for launch in LAUNCH_FACTORS
        if (c, b, launch) != (1.0, 1.0, 0.0)
    ]
    devices += [ModelledDevice(seed=seed) for seed in range(RANDOM_DEVICES)]
    total = sum(g.time_s for g in groups)
    rest = max(1.0 - total, 0.0)
    table = OperatorTable([groups])
    for device in devices:
        device.target_s = float(device.time_s(table).sum()) + rest
    return devices


def _ridge(groups: Sequence[OperatorGroup]) -> float:
    flop_rate = _reached(groups, lambda g: g.flops / g.time_s)
    byte_rate = _reached(groups, lambda g: g.bytes / g.time_s)
    return flop_rate / byte_rate if flop_rate > 0 and byte_rate > 0 else 1.0


def _reached(groups: Sequence[OperatorGroup], rate: Callable[[OperatorGroup], float]) -> float:
    """The rate that operators with a hundredth of the time reach or exceed."""
    timed = sorted((g for g in groups if g.time_s > 0), key=rate, reverse=True)
    total, held = sum(g.time_s for g in timed), 0.0
    for operators in timed:
        held += operators.time_s
        if held >= 0.01 * total:
            return rate(operators)
    return 0.0


class RecordedDevices:
    """Times on the devices `names`, in units of the target's time there. Operators without a known fate change like the
    target's, and so does the time between operators."""

    def __init__(self, names: Sequence[str], target: StepLoad) -> None:
        table = OperatorTable([target.groups])
        known_s = np.array([g.time_s if g.fate else 0.0 for g in table.groups])
        factors = np.array([g.fate.factors if g.fate else (0.0,) * len(names) for g in table.groups])
        factors = factors.reshape(len(table.groups), len(names))
        self.names = tuple(names)
        self.usual = known_s @ factors / known_s.sum() if known_s.sum() > 0 else np.ones(len(names))

    def times_s(self, table: OperatorTable, framework_s: np.ndarray) -> np.ndarray:
        """Shape (devices, loads): seconds there ÷ the target's factor."""
        factors = np.array([g.fate.factors if g.fate else self.usual for g in table.groups])
        relative = factors.reshape(len(table.groups), len(self.names)) / self.usual
        times_s = [table.sums(table.time_s * of_device) + framework_s for of_device in relative.T]
        return np.array(times_s).reshape(len(self.names), table.loads)
