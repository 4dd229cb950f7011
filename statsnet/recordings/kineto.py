"""A signature from the PyTorch profiler's recording of a step.

The recording's events go the way of a live profile's: nested, joined to their kernels and timed by the same functions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from statistics import median

from statsnet.errors import FileFormatError, UsageError
from statsnet.measure.device_kernels import Kernel, busy_s
from statsnet.measure.profiler_events import Event, NestedEvents, StepEvents
from statsnet.profiling.build_signature import build_signature, dtype_of_results, mode_of
from statsnet.profiling.capture import OpCall
from statsnet.profiling.collective_record import collectives_of
from statsnet.profiling.collective_times import waits_on_gpu
from statsnet.profiling.gpu_activity import launches_of, no_counters
from statsnet.profiling.kernels import cuda_implementation
from statsnet.profiling.step_trace import StepTrace, placed_kernels
from statsnet.profiling.timeline import times_of
from statsnet.progress import Report, silent
from statsnet.recordings.calls import RecordedCalls, calls_of
from statsnet.recordings.chrome_trace import RecordedEvent, Recording, read_chrome_trace
from statsnet.recordings.clock import check_clock, check_rates
from statsnet.recordings.described import Describer, common_dtype
from statsnet.recordings.environment import environment_of
from statsnet.recordings.graphs import give_operators, whole_of
from statsnet.recordings.imported import Imported, within_limits
from statsnet.recordings.joined_files import counted_by, give_arguments
from statsnet.recordings.lacks import check, device_of, notes_on
from statsnet.recordings.other_tools import HOW, refuse_other_tool
from statsnet.recordings.told_by_kernels import told_by_kernels
from statsnet.signatures.categories import categorize, namespace
from statsnet.signatures.collectives import Collectives, is_collective
from statsnet.signatures.gpu import Power
from statsnet.signatures.model import Signature
from statsnet.workloads.dtypes import dtype_name

ALIKE = 0.9
"""Steps with this share of the most operators count as the same step, run again."""


def read_kineto(
    path: Path,
    *,
    step: int | None = None,
    mode: str | None = None,
    capture: Path | None = None,
    execution_trace: Path | None = None,
    ncu: Path | None = None,
    report: Report = silent,
) -> Imported:
    """Read a Chrome trace. `step` is a ProfilerStep's number (default: that with the most kernel time; everything if
    none is marked); `capture` the recording in which its graphs were captured; `execution_trace` has the shapes, and
    `ncu` the counters of the step's kernels.

    Raises FileFormatError for a file that is no such trace or holds no operators, UsageError for a step it has not,
    MeasurementError for a table of other kernels.
    """
    recording = read_chrome_trace(path, report)
    if not any(recording.operators):
        refuse_other_tool(path, without_operators=True)
    captured = None if capture is None else read_chrome_trace(capture, report)
    joined = [] if execution_trace is None else [give_arguments(recording, execution_trace)]
    found = import_recording(recording, str(path), step=step, mode=mode, capture=captured, ncu=ncu)
    return replace(found, notes=(*joined, *found.notes))


def import_recording(
    recording: Recording,
    name: str,
    *,
    step: int | None = None,
    mode: str | None = None,
    capture: Recording | None = None,
    ncu: Path | None = None,
) -> Imported:
    """The signature of one step of a recording; `name` is for messages. Raises as `read_kineto`."""
    doubts = check_clock(recording, name)
    check(recording, name)
    chosen = choose_step(recording, name, step)
    events = events_of(recording, chosen)
    device = device_of(recording)
    notes = [*doubts, *notes_on(recording, device)]
    if step is None and len(recording.steps) > 1:
        number = next(n for n, event in recording.steps if event is chosen)
        why = "the busiest" if any(event.kernels for event in recording.events) else "by its time in the middle"
        notes.insert(0, f"ProfilerStep {number} was read, {why} of {len(recording.steps)}")
    graphs = [e for e in events.inside if isinstance(e, RecordedEvent) and e.is_graph and e.has_work]
    if capture is not None:
        given, total = give_operators(graphs, capture)
        notes.append(f"{given} of {total} kernels of graphs have operators, from their capture")
    elif ran := sum(len(g.kernels) for g in graphs):
        notes.append(
            f"{ran} kernels ran in graphs, without operators: give the recording in "
            "which the graphs were captured with --capture"
        )
    arguments = [e.arguments for e in events.inside if isinstance(e, RecordedEvent)]
    dtype = common_dtype(arguments)
    found = calls_of(events, Describer(dtype, recording.processes), device=device)
    if not found.calls:
        raise FileFormatError(
            f"the step in '{name}' holds no operators",
            cause=f"none of its {sum(1 for _ in recording.operators)} operators ran within {chosen.name or 'the step'}",
            hint=f"record whole steps with {HOW}, or choose another one with --step",
        )
    trace = _trace(events, found, device, has_kernels=recording.has_kernels)
    counted = [call.is_counted for call in found.calls if not call.metadata]
    if not all(counted) and recording.has_shapes:
        notes.append(
            f"{counted.count(False)} of {len(counted)} operators have no FLOPs and bytes: the recording does not tell "
            "all that their work depends on"
            + ("" if recording.has_numbers else ": it lacks strides and other numbers, which --execution-trace adds")
        )
    if device == "cpu" and step is None:
        trace = _over_equal_steps(trace, recording, chosen, Describer(dtype, recording.processes))
    signature = within_limits(
        lambda: build_signature(
            [trace],
            mode=mode or mode_of(found.calls),
            dtype=dtype_of_results(found.calls, dtype_name(dtype)),
            memory=dict.fromkeys(("parameter_count", "parameter_bytes", "buffer_bytes", "input_bytes")),
            environment=environment_of(recording, device),
            optimizer=found.optimizer,
            power=Power(missing={"nvml": "not_recorded"}),
            processes=recording.processes if recording.processes > 1 else None,
        ),
        name,
    )
    notes += check_rates(signature, name)
    signature = _as_recording(signature, _collectives(recording, trace))
    if ncu is not None:
        signature = counted_by(signature, launches_of([trace], [1.0]), ncu)
    return Imported(signature=signature, notes=tuple(notes))


def choose_step(recording: Recording, name: str, number: int | None) -> RecordedEvent:
    """The range of the step with this number; by default of the one that launched the most kernel time. On a CPU, where
    the longest step is the most disturbed one, it is the middle one by time of those with the most operators. Raises
    UsageError if it is not there."""
    steps = [event for n, event in recording.steps if number is None or n == number]
    if number is not None and not steps:
        known = ", ".join(str(n) for n, _ in recording.steps[:20]) or "none"
        raise UsageError(
            f"'{name}' has no step {number}", cause=f"it has {known}", hint="leave out --step for the busiest one"
        )
    if not steps:
        return whole_of(recording)
    kernel_time = [
        (event.start_ns, sum(k.end_ns - k.start_ns for k in event.kernels if not k.is_copy))
        for event in recording.events
        if event.kernels
    ]
    if any(own_ns for _, own_ns in kernel_time):
        busy_ns = _sums(steps, kernel_time)
        return max(zip(busy_ns, steps, strict=True), key=lambda pair: (pair[0], _ns(pair[1])))[1]
    counts = _sums(steps, [(event.start_ns, 1) for event in recording.operators])
    alike = sorted((s for n, s in zip(counts, steps, strict=True) if n >= ALIKE * max(counts)), key=_ns)
    return alike[(len(alike) - 1) // 2]


def _ns(step: RecordedEvent) -> int:
    return step.end_ns - step.start_ns


def _sums(steps: Sequence[RecordedEvent], amounts: Iterable[tuple[int, int]]) -> list[int]:
    """The sum over each step of amounts at these moments; steps may be many, and overlap."""
    ordered = sorted(amounts)
    starts = [start_ns for start_ns, _ in ordered]
    before = [0, *accumulate(amount for _, amount in ordered)]
    return [before[bisect_left(starts, s.end_ns)] - before[bisect_left(starts, s.start_ns)] for s in steps]


def _over_equal_steps(trace: StepTrace, recording: Recording, chosen: RecordedEvent, describer: Describer) -> StepTrace:
    """The trace of a CPU's step with the median times of all steps that run the same operators on the same shapes: each
    of them may have been disturbed somewhere."""
    traces = [trace]
    nested = NestedEvents(recording.threads.values())
    for other in (event for _, event in recording.steps if event is not chosen):
        events = nested.of_step(other)
        found = calls_of(events, describer, device="cpu")
        if [(c.op, c.phase, c.args) for c in found.calls] == [(c.op, c.phase, c.args) for c in trace.calls]:
            traces.append(_trace(events, found, "cpu", has_kernels=False))
    for calls in zip(*(t.calls for t in traces), strict=True):
        times_s = [c.time_s for c in calls if c.time_s is not None]
        calls[0].time_s = median(times_s) if times_s else None
    return replace(
        trace,
        step_latency_s=[s for t in traces for s in t.step_latency_s],
        profiled_latency_s=[s for t in traces for s in t.profiled_latency_s],
        framework_time_s=median(t.framework_time_s or 0.0 for t in traces),
    )


def events_of(recording: Recording, step: RecordedEvent) -> StepEvents:
    """The events of a step; its kernels are those that were launched in it."""
    launched = [
        kernel
        for event in recording.events
        if step.start_ns <= event.start_ns < step.end_ns
        for kernel in event.kernels
    ]
    return StepEvents.joined(recording.threads.values(), step, launched)


def _trace(events: StepEvents, found: RecordedCalls, device: str, *, has_kernels: bool) -> StepTrace:
    """The step as a live profile would give it. What a recording cannot tell is None."""
    calls = found.calls
    timed = {i: event for i, event in found.events.items() if not calls[i].metadata}
    line = times_of(events, timed, len(calls), len(timed), device=device)
    collectives = {i: event for i, event in timed.items() if is_collective(calls[i].op)}
    step_s = max(line.step_s, busy_s(events.on_device))
    implementations = [_implementation(kernels, device, has_kernels) for kernels in line.op_kernels]
    for i, call in enumerate(calls):
        call.time_s = 0.0 if call.metadata else line.op_time_s[i]
        call.is_lost = device == "cuda" and not call.metadata and _lost(found.events[i])
        _name_by_kernels(call, found.events[i], implementations[i])
        if call.is_lost or (device == "cuda" and not call.metadata and not has_kernels):
            call.time_s = None
    return StepTrace(
        device=device,
        calls=calls,
        implementations=implementations,
        step_latency_s=[step_s],
        profiled_latency_s=[step_s],
        framework_time_s=line.framework_s if has_kernels or device == "cpu" else None,
        idle_time_s=step_s - busy_s(events.on_device) if has_kernels else 0.0 if device == "cpu" else None,
        kernels_launched=len(events.on_device),
        unexplained_share=None,
        on_device=placed_kernels(line),
        waits=list(waits_on_gpu(events, collectives).each) if device == "cuda" else [],
    )


def _name_by_kernels(call: OpCall, event: Event, family: str) -> None:
    """An operator that torch does not know counts as the one that its kernels and tensors tell."""
    is_known = namespace(call.op) in ("aten", "prims") or categorize(call.op, call.phase) != "other"
    if is_known or not isinstance(event, RecordedEvent):
        return
    kernels = [kernel.name for part in event.within() for kernel in part.kernels]
    told = told_by_kernels(family, kernels, event.arguments)
    if told is not None:
        call.op, call.args, call.outputs = told.op, told.args, told.outputs
        call.is_counted = told.complete and not call.is_lost  # a kernel that was lost may do as much


def _lost(event: Event) -> bool:
    """Whether kernels of the call have no times."""
    return any(getattr(part, "lost", 0) for part in event.within())


def _implementation(kernels: list[Kernel], device: str, has_kernels: bool) -> str:
    return cuda_implementation(kernels) if device == "cuda" and has_kernels else "unknown"


def _collectives(recording: Recording, trace: StepTrace) -> Collectives | None:
    """Those of the process that was recorded; None if none was timed."""
    if not trace.waits or recording.processes < 2:
        return None
    return collectives_of([trace], [1.0], processes=recording.processes, backend=recording.backend)


def _as_recording(signature: Signature, collectives: Collectives | None) -> Signature:
    (measurement,) = signature.measurements
    gpu = measurement.gpu and replace(measurement.gpu, counters=no_counters("not_recorded"))
    return replace(
        signature,
        measurements=(
            replace(
                measurement,
                source="recording",
                coefficient_of_variation=None,
                gpu=gpu,
                collectives=collectives,
                unmatched_calls=None,
                recording_s=None,
            ),
        ),
    )
