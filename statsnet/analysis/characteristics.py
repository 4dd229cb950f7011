"""Characteristics of each workload's step: the figures that suites publish."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from statsnet.analysis.database import NamedSignature
from statsnet.signatures.statistics import interquartile_share, shares

HOTSPOT = 0.1
"""A function with more than this share of its workload's time is a hotspot (AIBench's definition)."""

MOST_OF_IT = 0.8
"""`leading` counts the largest functions that together have this share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Characteristics:
    """Characteristics of one workload's step. `categories` and `phases` are operators' shares of its time; the rest of
    the step is framework and idle time. `functions` are shares of operator time by operator and implementation (the
    kernel class), largest first.

    `spread` is the interquartile range of its steps' times over their median; `first_step` the first step's time over
    the median; `unexplained` the share of the step that operators, framework and idle time do not add up to.
    """

    name: str
    parameters: int | None
    flops: float
    bytes: float
    batch: int | None
    latency_s: float
    categories: dict[str, float]
    phases: dict[str, float]
    framework: float | None
    idle: float | None
    parameter_bytes: int | None
    buffer_bytes: int | None
    input_bytes: int | None
    optimizer_bytes: int | None
    activation_bytes: int | None
    peak_bytes: int | None
    steps: int
    coefficient_of_variation: float | None
    spread: float | None
    first_step: float | None
    unexplained: float | None
    functions: dict[str, float]

    @property
    def hotspots(self) -> list[str]:
        return [name for name, share in self.functions.items() if share > HOTSPOT]

    @property
    def leading(self) -> int:
        """How many functions take MOST_OF_IT of the operators' time."""
        held = 0.0
        for number, share in enumerate(self.functions.values(), 1):
            held += share
            if held >= MOST_OF_IT:
                return number
        return len(self.functions)


def categories_of(workloads: Sequence[Characteristics]) -> list[str]:
    """The operator categories of all, those that take most time first."""
    spent: dict[str, float] = defaultdict(float)
    for workload in workloads:
        for name, share in workload.categories.items():
            spent[name] += share
    return sorted(spent, key=lambda name: (-spent[name], name))


def characteristics_of(named: NamedSignature) -> Characteristics:
    """From the first measurement. Raises MeasurementError if that has no bare step."""
    signature = named.signature
    measurement, memory = signature.measurements[0], signature.memory
    latency_s = measurement.latency_s
    by_category: dict[str, float] = defaultdict(float)
    by_phase: dict[str, float] = defaultdict(float)
    by_function: dict[str, float] = defaultdict(float)
    rows = zip(signature.clusters, measurement.cluster_time_s, measurement.kernel_class, strict=True)
    for cluster, time_s, function in rows:
        by_category[cluster.category] += (time_s or 0.0) / latency_s
        by_phase[cluster.phase] += (time_s or 0.0) / latency_s
        by_function[function or cluster.op] += time_s or 0.0
    return Characteristics(
        name=named.name,
        parameters=memory.parameter_count,
        flops=signature.flops_per_step,
        bytes=signature.bytes_per_step,
        batch=signature.batch,
        latency_s=latency_s,
        categories=_largest_first(by_category),
        phases=dict(by_phase),
        framework=_share(measurement.framework_time_s, latency_s),
        idle=_share(measurement.idle_time_s, latency_s),
        parameter_bytes=memory.parameter_bytes,
        buffer_bytes=memory.buffer_bytes,
        input_bytes=memory.input_bytes,
        optimizer_bytes=memory.optimizer_bytes,
        activation_bytes=memory.activation_bytes,
        peak_bytes=memory.peak_bytes,
        steps=len(measurement.step_latency_s),
        coefficient_of_variation=measurement.coefficient_of_variation,
        spread=interquartile_share(measurement.step_latency_s),
        first_step=_share(next(iter(measurement.warmup_latency_s), None), latency_s),
        unexplained=measurement.unexplained_share,
        functions=_largest_first(shares(by_function)),
    )


def hotspots_by_category(steps: Sequence[Characteristics], measured: Sequence[NamedSignature]) -> dict[str, int]:
    """How many hotspots (functions of some workload) there are in each category: AIBench's table 7."""
    category_of: dict[str, str] = {}
    for named in measured:
        names = named.signature.measurements[0].kernel_class
        for cluster, function in zip(named.signature.clusters, names, strict=True):
            category_of.setdefault(function or cluster.op, cluster.category)
    counts: dict[str, int] = defaultdict(int)
    for step in steps:
        for name in step.hotspots:
            counts[category_of[name]] += 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _largest_first(amounts: dict[str, float]) -> dict[str, float]:
    return dict(sorted(amounts.items(), key=lambda item: (-item[1], item[0])))


def _share(time_s: float | None, latency_s: float) -> float | None:
    return None if time_s is None else time_s / latency_s
