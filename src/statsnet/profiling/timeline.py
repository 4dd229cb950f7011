"""One profiled step: operator times from torch.profiler, joined to the captured calls.

The profiler's events nest (`aten::linear` holds `aten::addmm`); the capture sees the calls below the composite
ones. Walking the events in order of time and matching the captured names one by one joins the two; an event
that matches takes its whole subtree's time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from statsnet.profiling.capture import OpCall
from statsnet.signatures.categories import base_name

STEP_LABEL = "statsnet:step"


@dataclass(slots=True, kw_only=True)
class Timeline:
    """Times of one profiled step, in seconds; `op_time_s[i]` belongs to the i-th captured call."""

    step_s: float
    op_time_s: list[float | None]
    op_events: list[int]
    op_kernels: list[list[tuple[str, float]]]
    framework_s: float
    idle_s: float
    events: int
    unmatched: int
    segment_s: dict[str, float] = field(default_factory=dict)


def profile_step(
    step: Callable[[], Any], calls: list[OpCall], *, device: str, event_overhead_s: float
) -> Timeline:
    """Run one step under the profiler. `event_overhead_s` is what recording one event costs (see
    `event_overhead_s()`); it is taken off every operator and off the gaps between them."""
    activities = [ProfilerActivity.CPU]
    if device == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities, acc_events=True) as session:
        with record_function(STEP_LABEL):
            step()
            if device == "cuda":
                torch.cuda.synchronize()
    return read_events(session.events(), calls, device=device, event_overhead_s=event_overhead_s)


def read_events(
    events: Any, calls: list[OpCall], *, device: str, event_overhead_s: float = 0.0
) -> Timeline:
    """Join a list of the profiler's `FunctionEvent`s to the captured calls."""
    cpu_events = [e for e in events if _on_cpu(e)]
    step = next(e for e in cpu_events if e.name == STEP_LABEL)
    start, end = step.time_range.start, step.time_range.end
    inside = [e for e in cpu_events if start <= e.time_range.start <= end and e is not step]
    roots = sorted(
        (e for e in inside if e.cpu_parent is None or e.cpu_parent is step), key=lambda e: e.time_range.start
    )
    # Views have no time of their own, and the autograd engine's are not all recorded: they are not joined.
    timed = [i for i, c in enumerate(calls) if not c.metadata]
    names = [_event_name(calls[i].op) for i in timed]
    found = _match_in_order(roots, names)
    if found is None:
        found = _match_by_name(roots, names)
    matched = {timed[position]: event for position, event in found.items()}

    time_s: list[float | None] = [None] * len(calls)
    counts = [0] * len(calls)
    kernels: list[list[tuple[str, float]]] = [[] for _ in calls]
    host_s = 0.0
    for index, event in matched.items():
        elapsed = event.time_range.elapsed_us() * 1e-6
        size = _subtree_size(event)
        host = max(elapsed - event_overhead_s * (size - 1), 1e-9)
        host_s += host
        counts[index] = size
        kernels[index] = list(_device_kernels(event))
        time_s[index] = sum(t for _, t in kernels[index]) if device == "cuda" else host
    step_s = step.time_range.elapsed_us() * 1e-6
    idle_s = 0.0
    total_overhead = event_overhead_s * len(inside)
    framework_s = max(step_s - total_overhead - host_s, 0.0)
    if device == "cuda":
        busy = _union_s([(k.time_range.start, k.time_range.end) for k in events if not _on_cpu(k)])
        framework_s, idle_s = 0.0, max(step_s - busy, 0.0)
    return Timeline(
        step_s=step_s,
        op_time_s=time_s,
        op_events=counts,
        op_kernels=kernels,
        framework_s=framework_s,
        idle_s=idle_s,
        events=len(inside),
        unmatched=len(timed) - len(matched),
        segment_s=_segments(inside, event_overhead_s),
    )


def _event_name(op: str) -> str:
    """The profiler's name of an operator. The engine adds gradients up in place, but not while they are being
    captured: `add` and `add_` are the same to the join."""
    name = f"aten::{base_name(op)}" if op.startswith("aten.") else base_name(op)
    return _IN_PLACE.get(name, name)


_IN_PLACE = {"aten::add_": "aten::add"}


def _on_cpu(event: Any) -> bool:
    return str(event.device_type).endswith("CPU")


def _segments(events: list[Any], event_overhead_s: float) -> dict[str, float]:
    """Seconds inside the ranges of each `segment:NAME`, what recording their events cost taken off."""
    starts = sorted(e.time_range.start for e in events)
    found: dict[str, float] = defaultdict(float)
    for event in events:
        if event.name.startswith("segment:"):
            span = event.time_range
            recorded = bisect_right(starts, span.end) - bisect_left(starts, span.start)
            elapsed = span.elapsed_us() * 1e-6 - recorded * event_overhead_s
            found[event.name.removeprefix("segment:")] += elapsed
    return dict(found)


def _children(event: Any) -> list[Any]:
    return sorted(event.cpu_children, key=lambda e: e.time_range.start)


def _match_in_order(roots: list[Any], names: list[str]) -> dict[int, Any] | None:
    """Strict join: every captured name is met in its order. None if the sequences differ."""
    matched: dict[int, Any] = {}
    position = 0
    stack = list(reversed(roots))
    while stack and position < len(names):
        event = stack.pop()
        if _IN_PLACE.get(event.name, event.name) == names[position]:
            matched[position] = event
            position += 1
        else:
            stack.extend(reversed(_children(event)))
    return matched if position == len(names) else None


def _match_by_name(roots: list[Any], names: list[str]) -> dict[int, Any]:
    """Loose join for steps that differ from the captured one: the n-th event of a name to its n-th call."""
    waiting: dict[str, deque[int]] = defaultdict(deque)
    for index, name in enumerate(names):
        waiting[name].append(index)
    matched: dict[int, Any] = {}
    stack = list(reversed(roots))
    while stack:
        event = stack.pop()
        queue = waiting.get(_IN_PLACE.get(event.name, event.name))
        if queue:
            matched[queue.popleft()] = event
        else:
            stack.extend(reversed(_children(event)))
    return matched


def _subtree(event: Any) -> Iterator[Any]:
    stack = [event]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(current.cpu_children)


def _subtree_size(event: Any) -> int:
    return sum(1 for _ in _subtree(event))


def _device_kernels(event: Any) -> Iterator[tuple[str, float]]:
    for part in _subtree(event):
        for kernel in part.kernels:
            yield kernel.name, kernel.duration * 1e-6


def _union_s(intervals: list[tuple[float, float]]) -> float:
    """Total length in seconds of a union of intervals given in microseconds."""
    total, reach = 0.0, float("-inf")
    for start, end in sorted(intervals):
        if end > reach:
            total += end - max(start, reach)
            reach = end
    return total * 1e-6


def event_overhead_s(calls: int = 1500) -> float:
    """Cost of recording one event, measured: a small operator with and without the profiler, in turn."""
    import time

    tensor = torch.zeros(8)

    def loop() -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            torch.neg(tensor)
        return time.perf_counter() - begin

    loop()
    with profile(activities=[ProfilerActivity.CPU]):  # the first session pays for set-up
        loop()
    differences = []
    for _ in range(3):
        bare = loop()
        with profile(activities=[ProfilerActivity.CPU]):
            profiled = loop()
        differences.append((profiled - bare) / calls)
    return max(sorted(differences)[1], 0.0)
