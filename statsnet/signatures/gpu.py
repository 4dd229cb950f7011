"""What a GPU did in one step, as data: kernels, pauses between them, energy and clocks, hardware counters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Annotated, Literal, get_args

from msgspec import Meta

from statsnet.signatures.limits import Count, KernelName, Quantity, Seconds, ShortText, Size

ShareCounter = Literal[
    "achieved_occupancy", "issue_slot_utilization", "sm_utilization", "tensor_core_utilization", "dram_utilization",
    "global_load_efficiency", "global_store_efficiency", "warp_execution_efficiency",
    "warp_nonpredicated_execution_efficiency", "l2_hit_rate",
    "stall_instruction_fetch", "stall_execution_dependency", "stall_memory_dependency", "stall_texture",
    "stall_synchronization", "stall_constant_memory_dependency", "stall_pipe_busy", "stall_memory_throttle",
]  # fmt: skip
RateCounter = Literal["ipc"]
SumCounter = Literal["dram_bytes"]
CounterName = Literal[ShareCounter, RateCounter, SumCounter]

SHARE_COUNTERS = get_args(ShareCounter)
"""Shares (for stalls: of the cycles in which a warp was active), averaged over time."""

RATE_COUNTERS = get_args(RateCounter)
"""Instructions per cycle of a multiprocessor, averaged over time."""

SUM_COUNTERS = get_args(SumCounter)
"""Added up over the kernels of a step."""

COUNTERS = (*SHARE_COUNTERS, *RATE_COUNTERS, *SUM_COUNTERS)

COUNTING = ("auto", "ncu", "off")
"""Counters if they are available; counters or an error; no counters."""

Reason = Literal["off", "not_installed", "not_permitted", "not_supported", "mismatch", "failed", "not_recorded"]
WHY_MISSING = get_args(Reason)
"""Words for why a value is null. `mismatch`: the counted kernels are not the timed ones.
`not_recorded`: the recording that was imported does not hold it."""

PowerField = Literal["energy", "clocks", "temperature", "throttled", "nvml"]
POWER_FIELDS = get_args(PowerField)
"""What NVML is asked for. If NVML itself cannot be used, `nvml` is missing."""

Throttle = Literal["hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake", "power_cap"]
THROTTLE_REASONS = get_args(Throttle)

Dims = tuple[Size, Size, Size]
Bin = Annotated[int, Meta(ge=-100, le=1000)]
Histogram = Annotated[tuple[tuple[Bin, Quantity], ...], Meta(max_length=100)]
"""Pairs: log2(microseconds), rounded down; and how many a step holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuKernel:
    """Launches of one kernel family (docs/kernel-families.md) with equal grid and block, made by one cluster (its
    index; None: by no operator). `launches` and `time_s` are per step."""

    cluster: Size | None
    family: KernelName
    grid: Dims | None
    block: Dims | None
    launches: Count
    time_s: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Energy and clocks while steps ran one after the other. `throttled` names the reasons that were seen; `missing`
    says why a field is None, by a word of WHY_MISSING."""

    energy_j_per_step: Quantity | None = None
    power_w: Quantity | None = None
    sm_clock_mhz: Quantity | None = None
    sm_clock_min_mhz: Quantity | None = None
    temperature_c: Quantity | None = None
    throttled: tuple[Throttle, ...] | None = None
    missing: Mapping[PowerField | CounterName, Reason]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Hardware counters by name in COUNTERS. For each cluster: the mean over its kernels' time (for SUM_COUNTERS, the
    sum in a step), or None if it launched nothing. For counters that are not there, `missing` says why, by a word of
    WHY_MISSING. `tool` is ncu with its version, where that is known."""

    tool: ShortText | None
    clusters: Mapping[CounterName, tuple[Quantity | None, ...]]
    missing: Mapping[PowerField | CounterName, Reason]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuActivity:
    """One step on a GPU: how long at least one kernel or copy ran, on how many streams, and which ones."""

    busy_time_s: Seconds
    streams: Annotated[int, Meta(ge=0, le=100_000)]
    kernels: Annotated[tuple[GpuKernel, ...], Meta(max_length=100_000)]
    duration_log2_us: Histogram
    gap_log2_us: Histogram
    power: Power
    counters: Counters

    def scale_times(self, factor: float) -> GpuActivity:
        """The same on a machine that takes `factor` times as long. Energy and counters stay as they are."""
        kernels = tuple(replace(k, time_s=factor * k.time_s) for k in self.kernels)
        return replace(self, busy_time_s=factor * self.busy_time_s, kernels=kernels)

    def without_grids(self, clusters: Set[int]) -> GpuActivity:
        """The same without the grids and blocks of what these clusters launched."""
        kernels = (replace(k, grid=None, block=None) if k.cluster in clusters else k for k in self.kernels)
        return replace(self, kernels=tuple(kernels))


def log2_histogram(seconds: Mapping[float, float]) -> Histogram:
    """The histogram of durations, given how often each occurs. Shorter ones count as a nanosecond."""
    bins: dict[int, float] = {}
    for duration_s, count in seconds.items():
        bin_ = math.floor(math.log2(max(duration_s, 1e-9) * 1e6))
        bins[bin_] = bins.get(bin_, 0.0) + count
    return tuple(sorted(bins.items()))
