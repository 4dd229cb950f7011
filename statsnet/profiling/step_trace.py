"""What is known of one step from its captured calls, its bare time and its profile, and how well these add up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from statsnet.measure.device_kernels import Kernel, busy_s
from statsnet.profiling.capture import OpCall
from statsnet.profiling.collective_times import Wait, in_bare_step, mean_waits
from statsnet.profiling.kernels import cpu_implementation, cuda_implementation
from statsnet.profiling.operator_times import operator_times_s, quiet_steps
from statsnet.profiling.timeline import Timeline
from statsnet.signatures.statistics import faster_half


@dataclass(slots=True, kw_only=True)
class StepTrace:
    """`calls` carry their times by the profiled steps; latencies are raw samples in seconds, `step_latency_s` the
    faster half of `all_steps_s`. `on_device` are the kernels of one of those steps on a GPU, in order, each with the
    index of its call in `calls` (None: no call launched it). `unmatched_calls` were found in no profiled step;
    `recording_s` is what recording events added to each profiled step, and was taken off. For a step that runs as a
    whole, unknown values are None. `waits` are its collectives."""

    device: str
    calls: list[OpCall]
    implementations: list[str]
    warmup_latency_s: list[float] = field(default_factory=list)
    step_latency_s: list[float] = field(default_factory=list)
    all_steps_s: list[float] = field(default_factory=list)
    profiled_latency_s: list[float] = field(default_factory=list)
    framework_time_s: float | None = 0.0
    idle_time_s: float | None = 0.0
    unmatched_calls: float = 0
    recording_s: float = 0.0
    kernels_launched: int = 0
    unexplained_share: float | None = 0.0
    pauses_s: float = 0.0
    on_device: list[tuple[int | None, Kernel]] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)

    @classmethod
    def counted(cls, calls: list[OpCall]) -> StepTrace:
        """The trace of a step whose calls are known and that ran nowhere."""
        return cls(device="meta", calls=calls, implementations=["unknown"] * len(calls))

    @property
    def latency_s(self) -> float:
        return median(self.step_latency_s)

    @property
    def op_time_s(self) -> float:
        return _op_time_s(self.calls)


def _op_time_s(calls: Iterable[OpCall]) -> float:
    return sum(call.time_s or 0.0 for call in calls)


def joined_trace(
    device: str,
    calls: list[OpCall],
    warmup_s: list[float],
    bare: list[float],
    timelines: list[Timeline],
    overhead_s: float,
) -> StepTrace:
    """The captured calls with their times, from bare and profiled steps in turn. The step's time comes from the faster
    half of the bare steps, because disturbances only add time; operators' times: see operator_times.py."""
    quiet, quiet_bare_s = quiet_steps(timelines), faster_half(bare)
    waiting = {wait.call for line in timelines for wait in line.waits.each}
    for call, time_s in zip(calls, operator_times_s(timelines, waiting), strict=True):
        call.time_s = 0.0 if call.metadata else time_s
    kernels = timelines[-1].op_kernels
    framework_s = min(median(t.framework_s for t in quiet), median(quiet_bare_s))
    idle_s = _idle_s(quiet_bare_s, quiet) if device == "cuda" else 0.0
    waits = in_bare_step(
        mean_waits([line.waits.each for line in quiet]),
        median(quiet_bare_s),
        fmean(own_s(line, device, overhead_s) for line in quiet),
    )
    return StepTrace(
        device=device,
        calls=calls,
        implementations=[
            cuda_implementation(kernels[i]) if device == "cuda" else cpu_implementation(c.kernels)
            for i, c in enumerate(calls)
        ],
        warmup_latency_s=warmup_s,
        step_latency_s=quiet_bare_s,
        all_steps_s=bare,
        profiled_latency_s=[t.step_s for t in timelines],
        framework_time_s=framework_s,
        idle_time_s=idle_s,
        unmatched_calls=min(t.unmatched for t in timelines),
        recording_s=overhead_s * median(t.events for t in quiet),
        kernels_launched=sum(len(k) for k in kernels),
        unexplained_share=unexplained_share(quiet_bare_s, _op_time_s(calls), framework_s + idle_s),
        on_device=placed_kernels(timelines[-1]),
        waits=waits,
        pauses_s=0.0 if device == "cuda" or waits else min(t.pauses_s for t in timelines),
    )


def own_s(line: Timeline, device: str, overhead_s: float) -> float:
    """Seconds of a profiled step without its idle time or, on a CPU, without what recording took. The latter is an
    estimate, and recording took nothing of the time in which the step waited."""
    if device == "cuda":
        return line.step_s - line.idle_s
    return max(line.step_s - overhead_s * line.events, sum(wait.alone_s for wait in line.waits.each))


def placed_kernels(timeline: Timeline) -> list[tuple[int | None, Kernel]]:
    """The kernels of a profiled step in order, each with the index of its call."""
    places = {id(kernel): i for i, kernels in enumerate(timeline.op_kernels) for kernel in kernels}
    return [(places.get(id(kernel)), kernel) for kernel in timeline.on_device]


def _idle_s(bare: list[float], quiet: list[Timeline]) -> float:
    """What the kernels leave of the bare step. Kernels take as long with a profiler as without one, but it slows the
    host that launches them: a step of small kernels has several times the pauses under the profiler."""
    return max(median(bare) - median(busy_s(line.on_device) for line in quiet), 0.0)


def unexplained_share(bare: Sequence[float], operators_s: float, rest_s: float) -> float:
    """|bare step − (operators + framework + idle)| ÷ bare step, of the times that are given."""
    step_s = median(bare)
    return abs(step_s - operators_s - rest_s) / step_s
