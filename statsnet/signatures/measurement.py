"""The times of a signature in one environment."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal, Required, TypedDict

from msgspec import Meta

from statsnet.environment import fingerprint
from statsnet.errors import MeasurementError
from statsnet.signatures.collectives import Collectives
from statsnet.signatures.conversion import IF_KNOWN
from statsnet.signatures.gpu import GpuActivity
from statsnet.signatures.limits import Finite, Id, KernelName, Quantity, Samples, Seconds, ShortText, Size, Word
from statsnet.signatures.rounding import in_steps, rounded
from statsnet.signatures.statistics import interquartile_share
from statsnet.signatures.timing import Timing

NOISY = 0.1
"""Steps are not stable if their coefficient of variation is above this, or the interquartile range ÷ median of the
undisturbed ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """Steps that are not alike, though their inputs are: `steps` were averaged, of which `distinct` differ. Deviations
    are standard deviations over the mean; errors half of the mean's 95 % interval, over the mean. Work is FLOPs, or
    bytes where there are none."""

    steps: Size
    distinct: Size
    work_deviation: Quantity
    work_error: Quantity
    time_deviation: Quantity
    time_error: Quantity

    def coarse(self) -> Variation:
        """Steps as powers of two, deviations with one digit: exact ones are a fingerprint of the data."""
        told: dict[str, Any] = {f.name: rounded(getattr(self, f.name), 1) for f in fields(self)}
        return Variation(**told | {"steps": in_steps(self.steps, 2), "distinct": in_steps(self.distinct, 2)})


Settings = Annotated[dict[str, ShortText], Meta(max_length=60)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceTime:
    """The step of a reference network between the profiled steps: how fast the machine was. `network` names
    what it does."""

    network: Id
    latency_s: Seconds


class GpuRecord(TypedDict, total=False):
    """The GPU's part of an environment record."""

    compute_capability: ShortText | None
    multiprocessors: Size | None
    cudnn: ShortText | None
    sm_clock_max_mhz: Size | None
    memory_clock_max_mhz: Size | None
    power_limit_w: Size | None


class Environment(TypedDict, total=False):
    """An environment record (statsnet/environment.py)."""

    device: Required[Literal["cpu", "cuda"]]
    device_name: Required[ShortText]
    cpu_model: ShortText | None
    cpu_capability: ShortText | None
    isa: Annotated[list[Word], Meta(max_length=100)]
    threads: Size | None
    interop_threads: Size | None
    cores: Size | None
    memory_bytes: Size | None
    torch: ShortText | None
    python: ShortText | None
    os: ShortText | None
    mkl: ShortText | None
    onednn: ShortText | None
    cuda: ShortText | None
    driver: ShortText | None
    allocator: Settings
    settings: Settings
    gpu: GpuRecord | None


def environment_without_details(device: Literal["cpu", "cuda"], device_name: str) -> Environment:
    """Of a machine of which nothing else is known."""
    return {
        "device": device, "device_name": device_name, "cpu_model": None, "cpu_capability": None, "isa": [],
        "threads": None, "interop_threads": None, "cores": None, "memory_bytes": None, "torch": None, "python": None,
        "os": None, "mkl": None, "onednn": None, "cuda": None, "driver": None, "allocator": {}, "settings": {},
    }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Times of one signature in one environment. Lists per cluster are in the order of the clusters; `gpu` is None on a
    CPU. `unmatched_calls` a step were captured but not profiled; `recording_s` is what recording events added to a
    profiled step, and was taken off; `variation` is there if the steps were not alike, `reference` if a reference
    network was timed beside them, `collectives` if several processes made the step together."""

    environment: Environment
    step_latency_s: Samples
    warmup_latency_s: Samples
    profiled_latency_s: Samples
    cluster_time_s: tuple[Seconds | None, ...]
    kernels: tuple[KernelName | None, ...]
    kernel_class: tuple[KernelName | None, ...]
    launches: Quantity
    framework_time_s: Quantity | None
    idle_time_s: Quantity | None
    unexplained_share: Finite | None
    coefficient_of_variation: Quantity | None
    source: Literal["profile", "replay", "recording"] = "profile"
    gpu: GpuActivity | None = field(default=None, metadata=IF_KNOWN)
    unmatched_calls: Quantity | None = field(default=None, metadata=IF_KNOWN)
    recording_s: Quantity | None = field(default=None, metadata=IF_KNOWN)
    variation: Variation | None = field(default=None, metadata=IF_KNOWN)
    reference: ReferenceTime | None = field(default=None, metadata=IF_KNOWN)
    collectives: Collectives | None = field(default=None, metadata=IF_KNOWN)

    @property
    def latency_s(self) -> float:
        """Median of the undisturbed steps. Raises MeasurementError if there are none."""
        if not self.step_latency_s:
            raise MeasurementError(
                "this measurement holds no undisturbed step",
                hint="profile the workload again, or choose another environment's measurement",
            )
        return statistics.median(self.step_latency_s)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.environment)

    @property
    def operator_time_s(self) -> float:
        """Time of all measured clusters in one step."""
        return math.fsum(t for t in self.cluster_time_s if t is not None)

    @property
    def explained_share(self) -> float:
        """What operators and the time between them add up to, as a share of the step. On a quiet CPU it is about
        1. Beside a busy neighbour it is not: bare and profiled steps are slowed down in different moments."""
        rest_s = (self.framework_time_s or 0.0) + (self.idle_time_s or 0.0)
        return (self.operator_time_s + rest_s) / self.latency_s

    @property
    def timing(self) -> Timing:
        """The undisturbed steps as an entry of a result."""
        spread = max(self.coefficient_of_variation or 0.0, interquartile_share(self.step_latency_s) or 0.0)
        warning = f"steps scatter by {spread:.0%} of their median: raise --min-time"
        return Timing(
            latency_s=self.step_latency_s,
            warmup_latency_s=self.warmup_latency_s,
            stable=spread <= NOISY,
            warnings=(warning,) if spread > NOISY else (),
        )

    def in_its_step(self) -> Measurement:
        """The same, but operators, framework and idle time add up to the step: the profiled steps met other moments of
        the machine than the bare ones, and recording took longer than was taken off. Both lengthen all parts alike.
        Where a GPU runs several kernels at once, operators fill what is left beside the rest; where the rest is not
        known, they only become shorter."""
        spent_s, step_s = self.operator_time_s, self.latency_s
        if not spent_s:
            return self
        if self.framework_time_s is None or self.idle_time_s is None:
            return self._with_parts(min(1.0, step_s / spent_s), self.framework_time_s, self.idle_time_s)
        framework_s, idle_s = self.framework_time_s, self.idle_time_s
        left_s = step_s - framework_s - idle_s
        if idle_s and 0 < left_s < spent_s:
            return self._with_parts(left_s / spent_s, framework_s, idle_s)
        factor = step_s / (spent_s + framework_s + idle_s)
        return self._with_parts(factor, factor * framework_s, factor * idle_s)

    def _with_parts(self, factor: float, framework_s: float | None, idle_s: float | None) -> Measurement:
        times_s = tuple(None if t is None else factor * t for t in self.cluster_time_s)
        return replace(self, cluster_time_s=times_s, framework_time_s=framework_s, idle_time_s=idle_s)

    def scale_times(self, factor: float) -> Measurement:
        """The same on a machine that takes `factor` times as long."""

        def scaled(time_s: float | None) -> float | None:
            return None if time_s is None else factor * time_s

        return replace(
            self,
            step_latency_s=tuple(factor * t for t in self.step_latency_s),
            cluster_time_s=tuple(scaled(t) for t in self.cluster_time_s),
            framework_time_s=scaled(self.framework_time_s),
            idle_time_s=scaled(self.idle_time_s),
            gpu=self.gpu.scale_times(factor) if self.gpu else None,
            collectives=self.collectives.scale_times(factor) if self.collectives else None,
        )
