"""A step that runs as a whole, compiled or launched as a CUDA graph: its operators cannot be watched while it runs.

Instead they are captured from the same step run operator by operator. If both have the same kernels in the same order,
as with a graph, an operator's time is that of its kernels in the whole step. If a compiler made other kernels,
operators have no time of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

from statsnet.measure.device_kernels import Kernel, busy_s
from statsnet.measure.profiler_events import StepEvents, profiling
from statsnet.measure.quiet_machine import QuietMachine
from statsnet.profiling.kernel_families import kernel_family
from statsnet.profiling.kernels import cuda_implementation
from statsnet.profiling.step_trace import StepTrace, unexplained_share
from statsnet.profiling.trace import MOST_REPEATS, timed
from statsnet.signatures.statistics import faster_half
from statsnet.workloads import Successive

WARM_UPS = 5


def trace_compiled_step(
    whole: Callable[[], Any] | Successive, alone: StepTrace, *, repeats: int = 5, min_time_s: float = 0.0
) -> StepTrace:
    """The trace of `whole`, with the operators of `alone`, the trace of the same step run operator by operator.

    Steps are timed first, then one is profiled. Unknown times are None.
    """
    run = timed(whole, alone.device)
    warmup = [run() for _ in range(WARM_UPS)]
    quiet_machine = QuietMachine(alone.device)
    begin = time.perf_counter()
    bare = [quiet_machine.measure(run)]
    while len(bare) < repeats or (time.perf_counter() - begin < min_time_s and len(bare) < MOST_REPEATS):
        bare.append(quiet_machine.measure(run))
    if isinstance(whole, Successive):
        whole.prepare()
    with profiling(alone.device) as session:
        whole()
    events = StepEvents.take(session)
    common: dict[str, Any] = {
        "warmup_latency_s": warmup,
        "step_latency_s": faster_half(bare),
        "all_steps_s": bare,
        "profiled_latency_s": [events.step.elapsed_s],
        "unmatched_calls": 0,
        "recording_s": 0.0,
    }
    if alone.device != "cuda":
        launches = sum(1 for event in events.inside if not event.children)
        return replace(
            alone,
            **common,
            **_untimed(alone),
            framework_time_s=None,
            idle_time_s=None,
            kernels_launched=launches,
        )
    step_s = median(faster_half(bare))
    common |= {
        "framework_time_s": 0.0,
        "idle_time_s": max(step_s - busy_s(events.on_device), 0.0),
        "kernels_launched": len(events.on_device),
    }
    if _families(events.on_device) != _families([kernel for _, kernel in alone.on_device]):
        placed: list[tuple[int | None, Kernel]] = [(None, kernel) for kernel in events.on_device]
        return replace(alone, **common, **_untimed(alone), on_device=placed)
    places = [place for place, _ in alone.on_device]
    return _placed(replace(alone, **common), list(zip(places, events.on_device, strict=True)))


def _placed(trace: StepTrace, placed: list[tuple[int | None, Kernel]]) -> StepTrace:
    """The trace with these kernels and their times."""
    own: list[list[Kernel]] = [[] for _ in trace.calls]
    for place, kernel in placed:
        if place is not None:
            own[place].append(kernel)
    calls = [
        replace(call, time_s=0.0 if call.metadata else sum(k.elapsed_s for k in kernels))
        for call, kernels in zip(trace.calls, own, strict=True)
    ]
    implementations = [cuda_implementation(kernels) for kernels in own]
    return replace(
        trace,
        calls=calls,
        implementations=implementations,
        on_device=placed,
        unexplained_share=unexplained_share(
            trace.step_latency_s, busy_s(k for _, k in placed), trace.idle_time_s or 0.0
        ),
    )


def _untimed(trace: StepTrace) -> dict[str, Any]:
    """Fields for operators without times and kernels."""
    return {
        "calls": [replace(call, time_s=0.0 if call.metadata else None) for call in trace.calls],
        "implementations": ["unknown"] * len(trace.calls),
        "unexplained_share": None,
    }


def _families(kernels: list[Kernel]) -> list[str]:
    return [kernel_family(kernel.name) for kernel in kernels]
