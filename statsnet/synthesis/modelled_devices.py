"""Modelled devices: where the proxy was never measured, its time should still follow the suite's.

Two families. Rooflines: an operator's measured time is scaled by the ratio of its roofline time on the device to
that on the machine where it was measured, for a spread of compute : bandwidth : launch cost (Williams, Waterman and
Patterson, CACM 2009). Random ones: every shape of every kernel class has a factor of its own, for what rooflines
cannot tell apart. None of these is a real device; nothing that checks fidelity is used here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from statsnet.synthesis.loads import OperatorGroup

COMPUTE_FACTORS = (0.25, 1.0, 4.0, 16.0)
BANDWIDTH_FACTORS = (0.5, 1.0, 4.0)
LAUNCH_FACTORS = (0.0, 5e-6)
RANDOM_DEVICES = 24
RANDOM_SPREAD = 0.7
"""Standard deviation of the natural logarithm of a class's random factor."""


@dataclass(slots=True, kw_only=True)
class Device:
    """`target_s` is the time of one second of the target here, so that modelled times can be normalised."""

    compute: float = 1.0
    bandwidth: float = 1.0
    launch_s: float = 0.0
    seed: int | None = None
    ridge: float = 1.0
    target_s: float = 1.0
    _factors: dict[str, float] = field(default_factory=dict)

    def time_s(self, work: OperatorGroup) -> float:
        if self.seed is not None:
            return work.time_s * self._random_factor(work.kernel_shape)
        here = max(work.flops / self.ridge, work.bytes)
        there = max(work.flops / self.ridge / self.compute, work.bytes / self.bandwidth)
        factor = there / here if here > 0 else 1.0 / self.bandwidth
        return work.time_s * factor + work.calls * self.launch_s

    def _random_factor(self, name: str) -> float:
        """Log-normal, the same for a name and seed everywhere."""
        if name not in self._factors:
            digest = hashlib.sha256(f"{self.seed}:{name}".encode()).digest()
            u = (int.from_bytes(digest[:8], "big") + 1) / (2**64 + 2)
            v = int.from_bytes(digest[8:16], "big") / 2**64
            normal = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)
            self._factors[name] = math.exp(RANDOM_SPREAD * normal)
        return self._factors[name]


def modelled_devices(works: Sequence[OperatorGroup]) -> list[Device]:
    """Devices for a target; the ridge point (FLOP/byte) is that of the machine it was measured on, taken from
    the highest FLOP rate and byte rate that a hundredth of its time reaches."""
    ridge = _ridge(works)
    devices = [
        Device(compute=c, bandwidth=b, launch_s=launch, ridge=ridge)
        for c in COMPUTE_FACTORS
        for b in BANDWIDTH_FACTORS
        for launch in LAUNCH_FACTORS
        if (c, b, launch) != (1.0, 1.0, 0.0)
    ]
    devices += [Device(seed=seed) for seed in range(RANDOM_DEVICES)]
    total = sum(w.time_s for w in works)
    rest = max(1.0 - total, 0.0)
    for device in devices:
        device.target_s = sum(device.time_s(w) for w in works) + rest
    return devices


def _ridge(works: Sequence[OperatorGroup]) -> float:
    flop_rate = _reached(works, lambda w: w.flops / w.time_s)
    byte_rate = _reached(works, lambda w: w.bytes / w.time_s)
    return flop_rate / byte_rate if flop_rate > 0 and byte_rate > 0 else 1.0


def _reached(works: Sequence[OperatorGroup], rate: Callable[[OperatorGroup], float]) -> float:
    """The rate that operators with a hundredth of the time reach or exceed."""
    timed = sorted((w for w in works if w.time_s > 0), key=rate, reverse=True)
    total, held = sum(w.time_s for w in timed), 0.0
    for work in timed:
        held += work.time_s
        if held >= 0.01 * total:
            return rate(work)
    return 0.0
