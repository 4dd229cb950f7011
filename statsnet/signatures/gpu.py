"""What a GPU did in one step, as data: kernels, pauses between them, energy and clocks, hardware counters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

SHARE_COUNTERS = (
    "achieved_occupancy", "issue_slot_utilization", "sm_utilization", "tensor_core_utilization", "dram_utilization",
    "global_load_efficiency", "global_store_efficiency", "warp_execution_efficiency",
    "warp_nonpredicated_execution_efficiency", "l2_hit_rate",
    "stall_instruction_fetch", "stall_execution_dependency", "stall_memory_dependency", "stall_texture",
    "stall_synchronization", "stall_constant_memory_dependency", "stall_pipe_busy", "stall_memory_throttle",
)  # fmt: skip
"""Parts of 1 (stalls: of the cycles in which a warp was active), averaged over time."""

RATE_COUNTERS = ("ipc",)
"""Instructions a cycle of a multiprocessor, averaged over time."""

SUM_COUNTERS = ("dram_bytes",)
"""Added up over the kernels of a step."""

COUNTERS = (*SHARE_COUNTERS, *RATE_COUNTERS, *SUM_COUNTERS)

COUNTING = ("auto", "ncu", "off")
"""Counters where they can be had; or else an error; or none."""

WHY_MISSING = ("off", "not_installed", "not_permitted", "not_supported", "mismatch", "failed")
"""Words for why a value is null: `mismatch` where the kernels that were counted are not those that were timed."""

POWER_FIELDS = ("energy", "clocks", "temperature", "throttled", "nvml")
"""What NVML is asked for; `nvml` is missing where none of it can be."""

THROTTLE_REASONS = ("hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake", "power_cap")

Dims = tuple[int, int, int]
Histogram = tuple[tuple[int, float], ...]
"""Pairs of a bin of log2(microseconds), rounded down, and how many a step holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuKernel:
    """Launches of one family (its name without template arguments and tile sizes) with equal grid and block, of one
    cluster (an index; None: of no operator). `launches` and `time_s` are per step."""

    cluster: int | None
    family: str
    grid: Dims | None
    block: Dims | None
    launches: float
    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Energy and clocks while steps ran one after the other. `throttled` names the reasons that were seen; `missing`
    says why a field is None, by a word of WHY_MISSING."""

    energy_j_per_step: float | None = None
    power_w: float | None = None
    sm_clock_mhz: float | None = None
    sm_clock_min_mhz: float | None = None
    temperature_c: float | None = None
    throttled: tuple[str, ...] | None = None
    missing: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Hardware counters by name in COUNTERS, for each cluster the mean over its kernels' time (SUM_COUNTERS: the sum
    in a step); None where a cluster launched nothing. `missing` says of the others why, by a word of WHY_MISSING."""

    tool: str | None
    clusters: Mapping[str, tuple[float | None, ...]]
    missing: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuActivity:
    """One step on a GPU: `busy_time_s` with at least one kernel or copy running, on so many `streams`."""

    busy_time_s: float
    streams: int
    kernels: tuple[GpuKernel, ...]
    duration_log2_us: Histogram
    gap_log2_us: Histogram
    power: Power
    counters: Counters

    def scale_times(self, factor: float) -> GpuActivity:
        """The same on a machine that takes `factor` times as long. Energy and counters stay as they are."""
        kernels = tuple(replace(k, time_s=factor * k.time_s) for k in self.kernels)
        return replace(self, busy_time_s=factor * self.busy_time_s, kernels=kernels)

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = _plain(asdict(self))
        return found

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> GpuActivity:
        throttled = data["power"]["throttled"]
        counters = data["counters"]
        return cls(
            busy_time_s=data["busy_time_s"],
            streams=data["streams"],
            kernels=tuple(
                GpuKernel(**{**k, "grid": _dims(k["grid"]), "block": _dims(k["block"])})
                for k in data["kernels"]
            ),
            duration_log2_us=tuple((bin_, count) for bin_, count in data["duration_log2_us"]),
            gap_log2_us=tuple((bin_, count) for bin_, count in data["gap_log2_us"]),
            power=Power(**{**data["power"], "throttled": None if throttled is None else tuple(throttled)}),
            counters=Counters(
                **{**counters, "clusters": {k: tuple(v) for k, v in counters["clusters"].items()}}
            ),
        )


def log2_histogram(seconds: Mapping[float, float]) -> Histogram:
    """Of durations and how often each occurs; what is shorter than a nanosecond counts as one."""
    found: dict[int, float] = {}
    for duration_s, count in seconds.items():
        bin_ = math.floor(math.log2(max(duration_s, 1e-9) * 1e6))
        found[bin_] = found.get(bin_, 0.0) + count
    return tuple(sorted(found.items()))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, Mapping) else value


def _dims(value: list[int] | None) -> Dims | None:
    return None if value is None else (value[0], value[1], value[2])
