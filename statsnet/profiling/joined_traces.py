"""Traces of steps that are not alike, from what a join brought together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median

from statsnet.profiling.collective_times import in_bare_step
from statsnet.profiling.joining import JoinedSteps, Variant
from statsnet.profiling.step_trace import StepTrace, unexplained_share

SAMPLES = 5
"""The bare steps are averaged into this many samples, each of which stands for an average step."""


def traces_of(
    joined: JoinedSteps,
    variants: list[Variant],
    shares: Sequence[float],
    *,
    device: str,
    bare_s: list[float],
    average_s: float,
    warmup_s: list[float],
) -> list[StepTrace]:
    """A trace for each variant of a join, which occur in these shares. Framework time, idle time, bare steps and what
    of their average is not explained are those of all of them."""
    profiled_s = fmean(joined.step_s) - (joined.idle_s if device == "cuda" else joined.recording_s)
    # On a GPU that is what its kernels take. The profiler slows the host, so that a profiled step has more pauses.
    idle_s = max(average_s - profiled_s, 0.0) if device == "cuda" else joined.idle_s
    traces = [
        StepTrace(
            device=device,
            calls=variant.calls,
            implementations=joined.implementations[number],
            warmup_latency_s=warmup_s if number == 0 else [],
            step_latency_s=bare_s,
            profiled_latency_s=joined.step_s if number == 0 else [],
            framework_time_s=joined.framework_s,
            idle_time_s=idle_s,
            kernels_launched=joined.kernels_launched,
            recording_s=joined.recording_s,
            waits=in_bare_step(joined.waits[number], median(bare_s), profiled_s) if joined.waits else [],
        )
        for number, variant in enumerate(variants)
    ]
    operators_s = sum(trace.op_time_s * n for trace, n in zip(traces, shares, strict=True)) / sum(shares)
    unexplained = unexplained_share([average_s], operators_s, joined.framework_s + idle_s)
    return [replace(trace, unexplained_share=unexplained) for trace in traces]


def mean_samples(latency_s: Sequence[float], count: int = SAMPLES) -> list[float]:
    """Means of successive ones, so that each stands for an average step."""
    count = min(count, SAMPLES, len(latency_s))
    edges = [round(i * len(latency_s) / count) for i in range(count + 1)]
    return [fmean(latency_s[a:b]) for a, b in itertools.pairwise(edges)]
