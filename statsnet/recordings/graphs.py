"""The operators of a CUDA or HIP graph's kernels, from the recording of the graph's capture.

Replaying a graph is one launch, and its kernels have no operators. While the graph was captured, the same operators
launched the same kernels in the same order, which did not run then.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from statsnet.measure.device_kernels import Kernel
from statsnet.measure.profiler_events import Event, StepEvents
from statsnet.recordings.chrome_trace import RecordedEvent, Recording

_LAUNCHES = ("LaunchKernel", "LaunchCooperativeKernel", "LaunchKernelExC", "ModuleLaunch", "ExtModuleLaunch")
_NO_LETTER = "\0"


def give_operators(graphs: Sequence[RecordedEvent], capture: Recording) -> tuple[int, int]:
    """Put the operators of the capture into the launches of graphs that replay it, each with its kernels.

    Returns how many kernels got operators, and how many kernels the graphs have.
    """
    captured = _Captured(capture)
    given = total = 0
    for graph in graphs:
        kernels = sorted(graph.kernels, key=lambda k: k.start_ns)
        total += len(kernels)
        if (begin := captured.find(kernels)) is None:
            continue
        graph.children = captured.operators_of(begin, graph, kernels)
        graph.kernels = []
        given += len(kernels)
    return given, total


class _Captured:
    """What was launched during a capture, in order."""

    def __init__(self, capture: Recording) -> None:
        whole = whole_of(capture)
        step = StepEvents.joined(capture.threads.values(), whole, ())
        self._roots = step.roots
        self._launches = [e for e in step.inside if isinstance(e, RecordedEvent) and _is_captured(e)]
        # As a text they can be searched in linear time.
        names = dict.fromkeys(launch.launched for launch in self._launches)
        self._letters = {name: chr(min(number, sys.maxunicode)) for number, name in enumerate(names, start=1)}
        self._text = "".join(self._letters[launch.launched] for launch in self._launches)

    def find(self, kernels: Sequence[Kernel]) -> int | None:
        """Where the launches begin that have these kernels' names in this order. Launches whose kernels are not named,
        as CUDA's, fit if there are as many of them."""
        if not kernels:
            return None
        wanted = "".join(self._letters.get(k.name, _NO_LETTER) for k in kernels)
        if (begin := self._text.find(wanted)) >= 0:
            return begin
        unnamed = not any(launch.launched for launch in self._launches)
        return 0 if unnamed and len(self._launches) == len(kernels) else None

    def operators_of(self, begin: int, graph: RecordedEvent, kernels: Sequence[Kernel]) -> list[Event]:
        """Copies of the ranges around these launches, with the kernels in them, when the graph was launched."""
        by_launch = {id(self._launches[begin + i]): kernel for i, kernel in enumerate(kernels)}
        copies: dict[int, RecordedEvent] = {}
        there = [event for root in self._roots for event in root.within() if isinstance(event, RecordedEvent)]
        for event in reversed(there):  # what is inside comes first
            kernel = by_launch.get(id(event))
            children: list[Event] = [copies[id(child)] for child in event.children if id(child) in copies]
            if children or kernel is not None:
                # The capture may be of another clock.
                copies[id(event)] = replace(
                    event, start_ns=graph.start_ns, end_ns=graph.end_ns, children=children,
                    kernels=[] if kernel is None else [kernel],
                )  # fmt: skip
        return [copies[id(root)] for root in self._roots if id(root) in copies]


def whole_of(recording: Recording) -> RecordedEvent:
    """A range around everything that the recording holds."""
    starts = [e.start_ns for e in recording.events]
    ends = [max([e.end_ns, *(k.end_ns for k in e.kernels)]) for e in recording.events]
    return RecordedEvent("recording", min(starts, default=0), max(ends, default=0), [], kind="annotation")


def _is_captured(event: RecordedEvent) -> bool:
    return event.kind == "launch" and not event.has_work and any(part in event.name for part in _LAUNCHES)
