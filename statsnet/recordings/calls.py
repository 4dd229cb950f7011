"""The calls of a recorded step: those operators that a live profile would have captured.

A live profile's dispatch mode sees an operator unless it is made of others alone (`aten::linear`), and nothing inside
it. An operator of another library is a call if it launched kernels itself. So is whatever else launched some inside an
operator's range: a compiler's kernels, a graph.
"""

from __future__ import annotations

from dataclasses import dataclass

from statsnet.measure.profiler_events import Event, StepEvents
from statsnet.profiling.capture import OpCall
from statsnet.profiling.loop_phases import OPTIMIZER_RANGES, optimizer_places
from statsnet.recordings.chrome_trace import RecordedEvent
from statsnet.recordings.described import Describer
from statsnet.recordings.operators import (
    does_work,
    is_collective,
    is_composite,
    is_operator_name,
    may_run_alone,
)
from statsnet.recordings.phases import optimizer_of, phase_of
from statsnet.recordings.process_groups import Noted, with_noted
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.vocabulary import OPAQUE_OP


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCalls:
    """Calls in their order, the event of each, and the optimizer's class where one ran. `events` has an entry for each
    call."""

    calls: list[OpCall]
    events: dict[int, Event]
    optimizer: str | None


def calls_of(step: StepEvents, describer: Describer, *, device: str) -> RecordedCalls:
    """The calls of a step whose events are nested."""
    calls: list[OpCall] = []
    events: dict[int, Event] = {}
    optimizer: str | None = None
    optimizers: list[tuple[int, str]] = []
    stack: list[tuple[Event, str, bool, Noted | None]] = [(e, "forward", False, None) for e in reversed(step.roots)]
    while stack:
        event, outer, is_inside, noted = stack.pop()
        if not isinstance(event, RecordedEvent):
            continue
        phase = phase_of(event.name, outer)
        optimizer = optimizer_of(event.name) or optimizer
        if event.name.startswith(OPTIMIZER_RANGES):
            optimizers.append((event.start_ns, event.name))
        noted = event.noted or noted
        is_call, goes_on = _role(event, device, is_inside)
        if is_call:
            call = _call(event, phase, describer, noted)
            events[len(calls)] = event
            calls.append(call)
        if goes_on:
            is_inside = is_inside or event.kind == "operator"
            # Another thread's marks may reach beyond the step.
            stack.extend(
                (child, phase, is_inside, noted)
                for child in reversed(event.children)
                if event.kind != "annotation" or child.start_ns < step.step.end_ns
            )
    for place in optimizer_places([(events[i].start_ns, i, c.op, c.phase) for i, c in enumerate(calls)], optimizers):
        calls[place].phase = "optimizer"
    return RecordedCalls(calls=calls, events=events, optimizer=optimizer)


def _role(event: RecordedEvent, device: str, is_inside: bool) -> tuple[bool, bool]:
    """Whether the event is a call, and whether there may be calls inside it. `is_inside`: it is within an operator."""
    if event.kind == "launch":
        # A graph's kernels belong to the operators of its capture, which are then inside.
        return event.is_graph and event.has_work and not event.children, True
    composite = is_composite(event.name) if event.kind == "operator" else None
    if composite is False:
        return True, False
    launches = [c for c in event.children if isinstance(c, RecordedEvent) and c.kind == "launch" and not c.is_graph]
    if any(launch.has_work for launch in launches):
        # What a user's range launched outside any operator belongs to none, as in a live profile.
        return event.kind == "operator" or is_inside or is_collective(event.name), True
    if event.kind == "annotation":
        return False, True
    if composite and may_run_alone(event.name):
        is_alone = not any(does_work(inner.name) for inner in event.within() if inner is not event)
        return is_alone, not is_alone
    if composite is None and is_operator_name(event.name):
        return not any(isinstance(c, RecordedEvent) and c.kind == "operator" for c in event.children), True
    compiled = device == "cpu" and not event.children and "cpp_fused" in event.name
    return compiled, True


def _call(event: RecordedEvent, phase: str, describer: Describer, noted: Noted | None) -> OpCall:
    if event.kind == "launch":
        return OpCall(op=OPAQUE_OP, phase=phase, args=[], outputs=[], is_counted=False)
    described = describer.describe(event.name, event.arguments)
    described = with_noted(described, noted or _noted_below(event), describer.processes)
    return OpCall(
        op=described.op, phase=phase, args=described.args, outputs=described.outputs, is_counted=described.complete,
        metadata=is_metadata(described.op),
    )  # fmt: skip


def _noted_below(event: Event) -> Noted | None:
    """What the process group notes below a collective's operator; no other operator has it directly inside."""
    return next((c.noted for c in event.children if isinstance(c, RecordedEvent) and c.noted), None)
