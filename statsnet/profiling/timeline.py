"""One profiled step: operator times from torch.profiler, joined to the captured calls.

The profiler's events nest (`aten::linear` holds `aten::addmm`); the capture sees only the calls below composite
operators. The join walks the events in order of time and matches the captured names one by one. An event
that matches gets the time of its whole subtree.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from statsnet.measure.device_kernels import Kernel, busy_s
from statsnet.measure.profiler_events import Event, StepEvents, profiling
from statsnet.profiling.beside_calls import work_beside
from statsnet.profiling.capture import OpCall
from statsnet.profiling.collective_times import Waits, waits_of
from statsnet.profiling.distributed import wait_for_others
from statsnet.profiling.event_names import event_name, joined_name


@dataclass(slots=True, kw_only=True)
class Timeline:
    """Times of one profiled step, in seconds; `op_time_s[i]` belongs to the i-th captured call. `on_device` are the
    kernels that ran on a GPU, in order; `op_kernels[i]` those of the i-th call. On a CPU, the time of a collective
    includes what the process waited for it outside of operators, and `framework_s` does not. `pauses_s` are long times
    between two operators. `beside` are the operators that ran beside the captured calls."""

    step_s: float
    op_time_s: list[float | None]
    op_kernels: list[list[Kernel]]
    on_device: list[Kernel]
    framework_s: float
    idle_s: float
    events: int
    unmatched: int
    waits: Waits = field(default_factory=Waits)
    pauses_s: float = 0.0
    segment_s: dict[str, float] = field(default_factory=dict)
    beside: frozenset[str] = frozenset()

    @property
    def operators_s(self) -> float:
        return sum(t for t in self.op_time_s if t is not None)


def profile_step(step: Callable[[], Any], calls: list[OpCall], *, device: str, event_overhead_s: float) -> Timeline:
    """Run one step under the profiler. `event_overhead_s` is what recording one event costs (see
    `event_overhead_s()`); it is subtracted from every operator and from the gaps between them."""
    with profiling(device, ready=wait_for_others) as session:
        step()
    return read_step(StepEvents.take(session), calls, device=device, event_overhead_s=event_overhead_s)


def read_step(step: StepEvents, calls: list[OpCall], *, device: str, event_overhead_s: float = 0.0) -> Timeline:
    """Join the profiler's events of a step to the captured calls."""
    matched = join_in_order(step, calls)
    if matched is None:
        matched = join_by_name(step, calls)
    timed = sum(1 for c in calls if not c.metadata)
    line = times_of(step, matched, len(calls), timed, device=device, event_overhead_s=event_overhead_s)
    line.beside = frozenset(work_beside(step.roots, {id(event) for event in matched.values()}, calls))
    return line


def join_in_order(step: StepEvents, calls: list[OpCall]) -> dict[int, Event] | None:
    """The event of each call, if the step made exactly the captured calls; else None."""
    # Views are not joined: they take no time, and the autograd engine does not record all of its own.
    timed = [i for i, c in enumerate(calls) if not c.metadata]
    names = [event_name(calls[i]) for i in timed]
    matched = _match_in_order(step.roots, names)
    for also_after in (False, True):
        if matched is None:
            matched = _match_within(step.roots, names, also_after=also_after)
    if matched is None:
        matched = _match_in_order(step.roots, names, innermost=True)
    return None if matched is None else {timed[position]: event for position, event in matched.items()}


def join_by_name(step: StepEvents, calls: list[OpCall]) -> dict[int, Event]:
    """Events of a step that differs from the captured one: the n-th event of a name goes to its n-th call."""
    timed = [i for i, c in enumerate(calls) if not c.metadata]
    matched = _match_by_name(step.roots, [event_name(calls[i]) for i in timed])
    return {timed[position]: event for position, event in matched.items()}


def times_of(
    step: StepEvents,
    matched: dict[int, Event],
    count: int,
    timed: int,
    *,
    device: str,
    event_overhead_s: float = 0.0,
) -> Timeline:
    """Times of `count` calls, `timed` of which should have one, from the events matched to them."""
    time_s: list[float | None] = [None] * count
    kernels: list[list[Kernel]] = [[] for _ in range(count)]
    taken = {id(event) for event in matched.values()}
    host_s = 0.0
    waits = waits_of(step, matched, device=device)
    for index, event in matched.items():
        own, inner = _own_parts(event, taken)
        elapsed = event.elapsed_s - sum(e.elapsed_s for e in inner)
        host = max(elapsed - event_overhead_s * (len(own) - 1 + len(inner)), 1e-9) + waits.outside_s.get(index, 0.0)
        host_s += host
        kernels[index] = [kernel for part in own for kernel in part.kernels]
        time_s[index] = sum(k.elapsed_s for k in kernels[index]) if device == "cuda" else host
    step_s = step.step.elapsed_s
    idle_s = 0.0
    framework_s = max(step_s - event_overhead_s * len(step.inside) - host_s, 0.0)
    if device == "cuda":
        framework_s, idle_s = 0.0, max(step_s - busy_s(step.on_device), 0.0)
    return Timeline(
        step_s=step_s,
        op_time_s=time_s,
        op_kernels=kernels,
        on_device=step.on_device,
        framework_s=framework_s,
        idle_s=idle_s,
        events=len(step.inside),
        unmatched=timed - len(matched),
        waits=waits,
        segment_s=_segments(step.inside, event_overhead_s),
        pauses_s=_pauses_s(step),
    )


def saved_copy(event: Event) -> Event | None:
    """The copy of its input that autograd makes inside an in-place operator (`hardtanh_`). It is captured as a
    call before the operator's, but profiled as an event inside it: see `_match_within`."""
    if not event.name.endswith("_"):
        return None
    return next((c for c in event.children if c.name == _COPY), None)


_COPY = "aten::clone"


def _segments(events: list[Event], event_overhead_s: float) -> dict[str, float]:
    """Seconds inside the ranges of each `segment:NAME`, less the time to record the events in them."""
    starts = [e.start_ns for e in events]
    seconds: dict[str, float] = defaultdict(float)
    for event in events:
        if event.name.startswith("segment:"):
            recorded = bisect_right(starts, event.end_ns) - bisect_left(starts, event.start_ns)
            seconds[event.name.removeprefix("segment:")] += event.elapsed_s - recorded * event_overhead_s
    return dict(seconds)


PAUSE_S = 200e-6
"""Python takes some 10 µs from one operator to the next: what takes so much longer is other work."""


def _pauses_s(step: StepEvents) -> float:
    """Seconds of the step in pauses of PAUSE_S and more, in which no operator ran. Ranges that somebody has named, and
    those of autograd and optimizers, are no operators."""
    seconds, reached_ns = 0.0, step.step.start_ns
    ends: list[Event | int] = [step.step.end_ns, *reversed(step.roots)]
    while ends:
        event = ends.pop()
        start_ns = event if isinstance(event, int) else event.start_ns
        if (pause_s := 1e-9 * (start_ns - reached_ns)) >= PAUSE_S:
            seconds += pause_s
        reached_ns = max(reached_ns, start_ns)
        if isinstance(event, int):
            continue
        if "::" in event.name and not event.name.startswith("autograd::"):
            reached_ns = max(reached_ns, event.end_ns)
        else:
            ends += [event.end_ns, *reversed(event.children)]
    return seconds


def _match_in_order(roots: list[Event], names: list[str], *, innermost: bool = False) -> dict[int, Event] | None:
    """Strict join: the events have all captured names in the captured order. None if the sequences differ.

    If `innermost`, an event that holds another of its name is left to that one: under torch.func each transformation
    (vmap, grad) calls the operator once more, and other operators beside it."""
    matched: dict[int, Event] = {}
    outer = _outer(roots) if innermost else frozenset()
    position = 0
    stack = list(reversed(roots))
    while stack and position < len(names):
        event = stack.pop()
        name = joined_name(event)
        if name == names[position] and id(event) not in outer:
            matched[position] = event
            position += 1
        else:
            stack.extend(reversed(event.children))
    return matched if position == len(names) else None


def _outer(roots: list[Event]) -> frozenset[int]:
    """The ids of events that have another event of their name inside."""
    found: set[int] = set()
    stack: list[tuple[Event, dict[str, list[int]]]] = [(root, {}) for root in roots]
    while stack:
        event, above = stack.pop()
        name = joined_name(event)
        found.update(above.get(name, ()))
        inside = {**above, name: [*above.get(name, ()), id(event)]} if name else above
        stack.extend((child, inside) for child in event.children)
    return frozenset(found)


def _match_within(roots: list[Event], names: list[str], *, also_after: bool) -> dict[int, Event] | None:
    """The same, where an event can also have the captured name that comes after those of the events inside it; and, if
    `also_after`, the one that comes before them.

    Before its own work an operator may call others, which are captured first: the copy of its input that autograd saves
    (`hardtanh_`), a conjugate that is made real (`mul`), hooks of saved tensors. Hooks of its result run after it.
    """
    matched: dict[int, Event] = {}
    position = 0
    stack: list[tuple[Event, int | None]] = [(event, None) for event in reversed(roots)]
    while stack and position < len(names):
        event, before = stack.pop()
        name = joined_name(event)
        is_next = name == names[position] and (before is None or position > before)
        if is_next:
            matched[position] = event
            position += 1
        if before is None and not is_next:
            stack.append((event, position))
            stack.extend((child, None) for child in reversed(event.children))
        elif before is None and also_after:
            stack.extend((child, None) for child in reversed(event.children) if joined_name(child) != name)
    return matched if position == len(names) else None


def _match_by_name(roots: list[Event], names: list[str]) -> dict[int, Event]:
    """Loose join for steps that differ from the captured one: the n-th event of a name goes to its n-th call."""
    waiting: dict[str, deque[int]] = defaultdict(deque)
    for index, name in enumerate(names):
        waiting[name].append(index)
    matched: dict[int, Event] = {}
    stack = list(reversed(roots))
    while stack:
        event = stack.pop()
        queue = waiting.get(joined_name(event))
        if queue:
            matched[queue.popleft()] = event
            if (copy := saved_copy(event)) is not None:
                stack.append(copy)
        else:
            stack.extend(reversed(event.children))
    return matched


def _own_parts(event: Event, taken: set[int]) -> tuple[list[Event], list[Event]]:
    """The event and all events inside it that belong to no other call; and the events inside it that do."""
    own, inner, stack = [event], [], list(event.children)
    while stack:
        current = stack.pop()
        if id(current) in taken:
            inner.append(current)
        else:
            own.append(current)
            stack.extend(current.children)
    return own, inner


CHUNKS = 15
"""A small operator's calls are timed in so many parts: where others take a core, they disturb some of them."""


def event_overhead_s(calls: int = 1500, *, record_shapes: bool = False) -> float:
    """Cost of recording one event, measured: a small operator with and without the profiler, in turn."""
    tensor = torch.zeros(8, device="cpu")

    def loop() -> list[float]:
        times_s = []
        for _ in range(CHUNKS):
            begin = time.perf_counter()
            for _ in range(calls // CHUNKS):
                torch.neg(tensor)
            times_s.append((time.perf_counter() - begin) / (calls // CHUNKS))
        return times_s

    loop()
    with profile(activities=[ProfilerActivity.CPU]):  # the first session pays for set-up
        loop()
    bare: list[float] = []
    profiled: list[float] = []
    for _ in range(3):
        bare += loop()
        with profile(activities=[ProfilerActivity.CPU], record_shapes=record_shapes):
            profiled += loop()
    return max(median(profiled) - median(bare), 0.0)
