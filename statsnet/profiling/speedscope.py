"""What the interpreter did in recorded steps, for https://www.speedscope.app.

The file holds every call of a Python function on the thread that runs the steps, with the operators of torch inside, as
torch's profiler saw them. Seeing a call takes time, so Python's share is larger than in a step that nobody watches.
Format: https://github.com/jlfwong/speedscope/blob/main/src/lib/file-format-spec.ts
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from statsnet.errors import MeasurementError
from statsnet.profiling.marks import part_and_name
from statsnet.profiling.trace_tracks import Range, complete, range_of, steps_of
from statsnet.units import plural

SCHEMA = "https://www.speedscope.app/file-format-schema.json"

_FUNCTION = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<name>.+)")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpreterProfile:
    """The document, and the share of the steps' time that lies in Python's functions and in no operator."""

    document: dict[str, Any]
    python_share: float


@dataclass(frozen=True, slots=True)
class _Call:
    ran: Range
    is_python: bool


@dataclass(frozen=True, slots=True)
class _Edge:
    """A call begins or ends."""

    at_us: float
    call: _Call
    opens: bool


def interpreter_profile(trace: dict[str, Any], name: str) -> InterpreterProfile:
    """From a trace that was recorded with stacks. Raises MeasurementError where it has no Python functions."""
    steps = steps_of(trace)
    calls = list(_calls(trace, steps))
    if not any(call.is_python for call in calls):
        raise MeasurementError(
            "no Python function was recorded",
            cause="this torch's profiler does not see the functions of this Python",
            hint="record a trace for Perfetto instead: a name that ends in .json.gz",
        )
    frames: dict[str, int] = {}
    events: list[dict[str, Any]] = []
    own_us, inside, before_us = 0.0, [_Call(steps[0], False)], steps[0].start_us
    for edge in _edges(calls):
        own_us += (edge.at_us - before_us) * inside[-1].is_python
        before_us = edge.at_us
        if edge.opens:
            inside.append(edge.call)
        else:
            inside.pop()
        frame = frames.setdefault(_shown(edge.call.ran.name), len(frames))
        events.append({"type": "O" if edge.opens else "C", "frame": frame, "at": round(edge.at_us, 3)})
    document = {
        "$schema": SCHEMA,
        "name": name,
        "exporter": "StatsNet",
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(text) for text in frames]},
        "profiles": [
            {
                "type": "evented",
                "name": f"{plural(len(steps), 'step')}: Python functions, and operators in them",
                "unit": "microseconds",
                "startValue": round(steps[0].start_us, 3),
                "endValue": round(max(steps[-1].end_us, before_us), 3),
                "events": events,
            }
        ],
    }
    total_us = sum(step.end_us - step.start_us for step in steps)
    return InterpreterProfile(document=document, python_share=min(own_us / total_us, 1.0))


def _calls(trace: dict[str, Any], steps: list[Range]) -> Iterator[_Call]:
    """Calls on the steps' own thread that begin in one of them, in order, the outer ones first; each step is one."""
    kinds = ("python_function", "cpu_op", "user_annotation")
    found = [(range_of(event), event.get("cat") == "python_function") for event in complete(trace, *kinds)]
    found.sort(key=lambda each: (each[0].start_us, -each[0].end_us))
    number = 0
    for ran, is_python in found:
        while number < len(steps) and ran.start_us > steps[number].end_us:
            number += 1
        if number == len(steps):
            return
        step = steps[number]
        if ran.thread == step.thread and ran.start_us >= step.start_us and part_and_name(ran.name) is None:
            yield _Call(ran, is_python)


def _edges(calls: list[_Call]) -> Iterator[_Edge]:
    """Begins and ends in order. A call ends with the one around it at the latest: the profiler's two clocks may differ
    by a little."""
    around: list[tuple[_Call, float]] = []
    for call in calls:
        while around and around[-1][1] <= call.ran.start_us:
            ended, end_us = around.pop()
            yield _Edge(end_us, ended, opens=False)
        end_us = min(call.ran.end_us, around[-1][1]) if around else call.ran.end_us
        yield _Edge(call.ran.start_us, call, opens=True)
        around.append((call, end_us))
    while around:
        ended, end_us = around.pop()
        yield _Edge(end_us, ended, opens=False)


def _shown(name: str) -> str:
    """Without addresses, by which calls of one function would differ."""
    return _ADDRESS.sub("", name)


def _frame(text: str) -> dict[str, Any]:
    function = _FUNCTION.fullmatch(text)
    if function is None:
        return {"name": text}
    return {"name": function["name"], "file": function["file"], "line": int(function["line"])}
