"""When the collectives of a profiled step ran, and how much of that the process computed nothing.

On a CPU a collective's work goes on in a thread of gloo's after its call, and the profiler records both. A process that
waits for it is in no operator, as in the pauses that Python makes between two. But waiting ends when the work ends. So
a pause is waiting if a collective ends in it, from the pause's beginning to that end. On a GPU, work is NCCL's kernels,
and computing is any other kernel.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from statsnet.measure.device_kernels import Kernel, Span, union
from statsnet.measure.profiler_events import Event, StepEvents
from statsnet.signatures.categories import base_name, namespace
from statsnet.signatures.collectives import is_collective, kind_of

_DONE_BY = {
    "all_reduce": ("all_reduce", "reduce_scatter"),  # which gloo makes of it
    "sparse_all_reduce": ("all_reduce",),
    "recv": ("receive", "send_receive"),
    "recvAnySource": ("receive", "send_receive"),
    "send": ("send", "send_receive"),
} | {name: (name,) for name in ("all_gather", "all_to_all", "barrier", "broadcast", "gather", "reduce", "scatter")}
"""Whose calls a work does, by its name behind the backend's; a name that is not here may be of any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One collective in a step: the index of its call, seconds to the end of its work, those of them in which the
    process computed nothing, those of the latter that no earlier one has (`alone_s`), and the place of its begin in the
    step, from 0 to 1."""

    call: int
    time_s: float
    exposed_s: float
    alone_s: float
    start_share: float


@dataclass(frozen=True, slots=True)
class Waits:
    """All waits of a step. `outside_s`: by call, the part of `alone_s` outside of any operator."""

    each: tuple[Wait, ...] = ()
    outside_s: Mapping[int, float] = field(default_factory=dict)


def waits_of(step: StepEvents, matched: Mapping[int, Event], *, device: str) -> Waits:
    """How long a profiled step waited for its collectives. Its events are matched to calls."""
    collectives = {i: event for i, event in matched.items() if is_collective(_operator(event))}
    if not collectives:
        return Waits()
    if device == "cuda":
        return waits_on_gpu(step, collectives)
    return _on_cpu(step, collectives, matched)


def _on_cpu(step: StepEvents, collectives: Mapping[int, Event], matched: Mapping[int, Event]) -> Waits:
    computing = union(_computing(step, matched))
    spans = _with_works(collectives, step.works)
    exposed = {i: [_last_pause(span, computing, step.step.end_ns)] for i, span in spans.items()}
    in_operators = union((event.start_ns, event.end_ns) for event in matched.values())
    alone = _each_once(exposed)
    outside = {
        i: _length(rest for part in parts for rest in _without(part, in_operators)) for i, parts in alone.items()
    }
    return _waits(step, spans, exposed, alone, {i: length * 1e-9 for i, length in outside.items()})


def waits_on_gpu(step: StepEvents, collectives: Mapping[int, Event]) -> Waits:
    """How long a profiled step on a GPU waited for its collectives, from their calls and events."""
    kernels = {i: list(_kernels_in(event)) for i, event in collectives.items()}
    moving = {id(kernel) for group in kernels.values() for kernel in group}
    computing = union((k.start_ns, k.end_ns) for k in step.on_device if id(k) not in moving)
    spans = {i: (min(k.start_ns for k in ks), max(k.end_ns for k in ks)) for i, ks in kernels.items() if ks}
    exposed = {i: _without(span, computing) for i, span in spans.items()}
    return _waits(step, spans, exposed, _each_once(exposed), {})


def _waits(
    step: StepEvents,
    spans: Mapping[int, Span],
    exposed: Mapping[int, Sequence[Span]],
    alone: Mapping[int, Sequence[Span]],
    outside_s: Mapping[int, float],
) -> Waits:
    begin, length = step.step.start_ns, max(step.step.end_ns - step.step.start_ns, 1)
    each = tuple(
        Wait(
            call=i,
            time_s=(end - start) * 1e-9,
            exposed_s=_length(exposed[i]) * 1e-9,
            alone_s=_length(alone[i]) * 1e-9,
            start_share=min(max((start - begin) / length, 0.0), 1.0),
        )
        for i, (start, end) in sorted(spans.items())
    )
    return Waits(each, outside_s)


def _each_once(spans: Mapping[int, Sequence[Span]]) -> dict[int, list[Span]]:
    """What of each one's spans those that end earlier leave."""
    covered: list[Span] = []
    left: dict[int, list[Span]] = {}
    for i in sorted(spans, key=lambda i: spans[i][-1][1] if spans[i] else 0):
        left[i] = [rest for part in spans[i] for rest in _without(part, covered)]
        covered = union([*covered, *spans[i]])
    return left


def _operator(event: Event) -> str:
    return event.name.replace("::", ".")


def _moves_data(event: Event) -> bool:
    operator = _operator(event)
    return is_collective(operator) or (base_name(operator) == "wait_tensor" and namespace(operator) != "aten")


def _with_works(collectives: Mapping[int, Event], works: Sequence[Event]) -> dict[int, Span]:
    """For each call, the time from it to the end of its work. Works of one operation begin in the order of its calls,
    once a thread is free. A reduce-scatter may have several: a sum that no call waits for is of the last one before."""
    waiting = sorted(collectives.items(), key=lambda item: item[1].start_ns)
    spans = {i: (event.start_ns, event.end_ns) for i, event in waiting}
    scattered: list[tuple[int, Event]] = []
    for work in works:
        found = next((each for each in waiting if _may_do(work, each[1])), None)
        if found is not None:
            waiting.remove(found)
            scattered += [found] if kind_of(_operator(found[1])) == "reduce_scatter" else []
        else:
            found = next((each for each in reversed(scattered) if _may_do(work, each[1])), None)
        if found is not None:
            begin, end = spans[found[0]]
            spans[found[0]] = (begin, max(end, work.end_ns))
    return spans


def _may_do(work: Event, call: Event) -> bool:
    does = _DONE_BY.get(work.name.partition(":")[2])
    return call.start_ns <= work.start_ns and (does is None or kind_of(_operator(call)) in does)


def _computing(step: StepEvents, matched: Mapping[int, Event]) -> Iterable[Span]:
    """Spans of operators that neither move data nor wait for it, nor hold one that does."""
    calls = {id(event) for event in matched.values()}
    stack = list(step.roots)
    while stack:
        event = stack.pop()
        is_operator = id(event) in calls or (event.name.startswith("aten::") and not event.children)
        if is_operator and not _holds(event):
            yield event.start_ns, event.end_ns
        else:
            stack += event.children


def _holds(event: Event) -> bool:
    return _moves_data(event) or any(map(_holds, event.children))


def _last_pause(span: Span, computing: Sequence[Span], step_end_ns: int) -> Span:
    """The end of a span within the step, from when nothing was computed any more; empty if something was to the
    last."""
    begin, end = min(span[0], step_end_ns), min(span[1], step_end_ns)
    place = bisect_right(computing, (end, end))
    last = computing[place - 1][1] if place else begin
    return (min(max(begin, last), end), end)


def _kernels_in(event: Event) -> Iterable[Kernel]:
    yield from event.kernels
    for child in event.children:
        yield from _kernels_in(child)


def _without(span: Span, others: Sequence[Span]) -> list[Span]:
    """What of a span lies in none of the others, which do not touch."""
    begin, end = span
    rest: list[Span] = []
    for start, stop in others:
        if stop <= begin or start >= end:
            continue
        if start > begin:
            rest.append((begin, start))
        begin = max(begin, stop)
    return [*rest, (begin, end)] if begin < end else rest


def _length(spans: Iterable[Span]) -> int:
    return sum(end - start for start, end in spans)


def mean_waits(steps: Sequence[Sequence[Wait]]) -> list[Wait]:
    """For each call, its mean over several profiled steps. One that a step does not make waits for nothing in it: so
    the means add up to no more than a mean step. Medians may, where each step waits at another place."""
    by_call: dict[int, list[Wait]] = {}
    for wait in (wait for waits in steps for wait in waits):
        by_call.setdefault(wait.call, []).append(wait)
    return [mean_wait(call, waits, len(steps)) for call, waits in sorted(by_call.items())]


def mean_wait(call: int, waits: Sequence[Wait], steps: int) -> Wait:
    """The mean over so many steps of what a call waited for in some of them."""
    return Wait(
        call=call,
        time_s=math.fsum(w.time_s for w in waits) / steps,
        exposed_s=math.fsum(w.exposed_s for w in waits) / steps,
        alone_s=math.fsum(w.alone_s for w in waits) / steps,
        start_share=fmean(w.start_share for w in waits),
    )


def in_bare_step(waits: Iterable[Wait], bare_s: float, profiled_s: float) -> list[Wait]:
    """What a bare step waits, which takes `bare_s`, where profiled ones take `profiled_s` on average. If other programs
    slowed these, they slowed the waiting as well; and no step waits longer than it takes."""
    factor = min(bare_s / profiled_s, 1.0) if profiled_s > 0 else 1.0
    return [
        replace(w, time_s=factor * w.time_s, exposed_s=factor * w.exposed_s, alone_s=factor * w.alone_s) for w in waits
    ]
