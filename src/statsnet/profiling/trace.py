"""A step measured from every side: bare time, captured calls, profiled times; and how well they add up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch

from statsnet.profiling.capture import OpCall, capture_step
from statsnet.profiling.kernels import cpu_implementation, cuda_implementation
from statsnet.profiling.timeline import Timeline, event_overhead_s, profile_step
from statsnet.signatures.categories import is_metadata

Step = Callable[[int], Any]
"""Called with the number of the step, so that inputs can rotate."""


@dataclass(slots=True, kw_only=True)
class StepTrace:
    """`calls` carry their median time over the profiled steps; latencies are raw samples in seconds."""

    device: str
    calls: list[OpCall]
    implementations: list[str]
    warmup_latency_s: list[float] = field(default_factory=list)
    step_latency_s: list[float] = field(default_factory=list)
    profiled_latency_s: list[float] = field(default_factory=list)
    framework_time_s: float = 0.0
    idle_time_s: float = 0.0
    unmatched_calls: int = 0
    kernels_launched: int = 0

    @property
    def latency_s(self) -> float:
        return median(self.step_latency_s)

    @property
    def op_time_s(self) -> float:
        return sum(c.time_s or 0.0 for c in self.calls)

    @property
    def unexplained_share(self) -> float:
        """|bare step − (operators + framework + idle)| ÷ bare step."""
        explained = self.op_time_s + self.framework_time_s + self.idle_time_s
        return abs(self.latency_s - explained) / self.latency_s


def trace_step(
    step: Step,
    *,
    device: str = "cpu",
    warmup: int = 3,
    repeats: int = 5,
    min_time_s: float = 0.0,
    phases: Callable[[Callable[[str], None] | None], None] | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    first_input: int = 0,
) -> StepTrace:
    """Warm up, capture one step, then bare and profiled steps in turn.

    `repeats` of each at least, more until they have run for `min_time_s` together. All are step number
    `first_input`: the same inputs, so that the calls correspond one by one.
    """
    report = on_progress or (lambda _stage, _share: None)
    run = _timed(step, device)
    warmup_s = [run(first_input) for _ in range(warmup)]
    report("capturing operators", 0.2)
    calls = capture_step(lambda: step(first_input), device=device, phases=phases)
    for call in calls:
        call.metadata = is_metadata(call.op)
    overhead = event_overhead_s()
    profile_step(lambda: step(first_input), calls, device=device, event_overhead_s=overhead)  # set-up, dropped
    run(first_input)

    bare: list[float] = []
    timelines: list[Timeline] = []
    begin = time.perf_counter()
    while len(bare) < repeats or (time.perf_counter() - begin < min_time_s and len(bare) < 40):
        bare.append(run(first_input))
        timelines.append(
            profile_step(lambda: step(first_input), calls, device=device, event_overhead_s=overhead)
        )
        report("measuring", 0.3 + 0.7 * len(bare) / max(repeats, 1))
    _fill_times(calls, timelines)
    kernels = timelines[-1].op_kernels
    return StepTrace(
        device=device,
        calls=calls,
        implementations=[
            cuda_implementation(kernels[i]) if device == "cuda" else cpu_implementation(c.kernels)
            for i, c in enumerate(calls)
        ],
        warmup_latency_s=warmup_s,
        step_latency_s=bare,
        profiled_latency_s=[t.step_s for t in timelines],
        framework_time_s=median(t.framework_s for t in timelines),
        idle_time_s=median(t.idle_s for t in timelines),
        unmatched_calls=min(t.unmatched for t in timelines),
        kernels_launched=sum(len(k) for k in kernels),
    )


def _timed(step: Step, device: str) -> Callable[[int], float]:
    def run(index: int) -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        step(index)
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begin

    return run


def _fill_times(calls: list[OpCall], timelines: list[Timeline]) -> None:
    for index, call in enumerate(calls):
        samples = [t for line in timelines if (t := line.op_time_s[index]) is not None]
        call.time_s = 0.0 if call.metadata else median(samples) if samples else None
        call.device_kernels = len(timelines[-1].op_kernels[index])
