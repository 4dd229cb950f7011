"""How long the steps of one process took: one entry of a result's `processes`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from statsnet.signatures.conversion import IF_KNOWN
from statsnet.signatures.limits import Finite, PositiveSeconds, Quantity, Share

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPower:
    """Energy and clocks of a GPU during one process, as NVML gave them (measure/gpu_power.py). `throttled` names the
    reasons that were seen for a lower clock; `missing` says why a field is None."""

    energy_j_per_step: Quantity | None = None
    power_w: Quantity | None = None
    sm_clock_mhz: Quantity | None = None
    sm_clock_min_mhz: Quantity | None = None
    temperature_c: Finite | None = None
    throttled: tuple[str, ...] | None = None
    missing: Mapping[str, str] | None = None


Times = Annotated[tuple[PositiveSeconds, ...], Meta(max_length=1_000_000)]
SomeTimes = Annotated[tuple[PositiveSeconds, ...], Meta(min_length=1, max_length=1_000_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What one process measured: one sample, however many steps it ran. Raw times in seconds.

    If the process took turns with others, `window_latency_s` holds the median of each of its turns. On a GPU, `power`
    is what it drew meanwhile, `attempts` how often it was measured until nothing throttled it, and `flushed_latency_s`
    has steps after the L2 cache was overwritten. `generated_share` is the share of a compiled step in kernels that the
    compiler generated. Unknown values are None here and left out of a file.
    """

    latency_s: SomeTimes
    warmup_latency_s: Times = ()
    stable: bool = True
    warnings: tuple[str, ...] = ()
    window_latency_s: Times | None = field(default=None, metadata=IF_KNOWN)
    flushed_latency_s: Times | None = field(default=None, metadata=IF_KNOWN)
    generated_share: Share | None = field(default=None, metadata=IF_KNOWN)
    attempts: Annotated[int, Meta(ge=1, le=100)] | None = field(default=None, metadata=IF_KNOWN)
    power: ProcessPower | None = field(default=None, metadata=IF_KNOWN)


Processes = Annotated[tuple[Timing, ...], Meta(min_length=1, max_length=100_000)]


def warnings_of(processes: Sequence[Timing]) -> list[str]:
    """What went wrong in any process: of sentences that differ in their numbers alone, the worst."""
    worst: dict[str, str] = {}
    for warning in (w for process in processes for w in process.warnings):
        key = _NUMBER.sub("#", warning).replace("+", "-")
        worst[key] = max(worst.get(key, warning), warning, key=lambda text: [float(n) for n in _NUMBER.findall(text)])
    unstable = sum(not process.stable for process in processes)
    first = [f"{unstable} of {len(processes)} processes were not stable"] if unstable else []
    return [*first, *worst.values()]
