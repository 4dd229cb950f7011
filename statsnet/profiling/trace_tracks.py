"""torch's trace with tracks of its own for the parts of a step: phases, towers, blocks, modules, and memory.

A trace is what torch's profiler exports: Chrome's Trace Event Format
(https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU), which Perfetto opens. Times in it are
microseconds. Tracks are threads of a process that does not exist.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from statsnet.profiling.marks import PARTS, Part, part_and_name

PROCESS = 2**22 + 1
"""The process id that the tracks are given: larger than any of Linux."""

TRACKS = ("phases", "towers", "blocks", "modules", "towers, backward", "blocks, backward", "modules, backward")
"""From top to bottom."""

_BACKWARD = "autograd::engine::evaluate_function"
_STEP = "ProfilerStep#"
_DEVICES = {0: "CPU", 1: "GPU"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSteps:
    """How many steps a trace holds, the median of their seconds, and the events of operators and the kernels
    of all of them."""

    count: int
    step_s: float
    operators: int
    kernels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A stretch of time on one thread, in microseconds."""

    name: str
    start_us: float
    end_us: float
    thread: str = ""


def recorded_steps(trace: dict[str, Any]) -> RecordedSteps:
    """What a trace of steps within `ProfilerStep#N` holds."""
    steps = steps_of(trace)
    return RecordedSteps(
        count=len(steps),
        step_s=median(step.end_us - step.start_us for step in steps) * 1e-6 if steps else 0.0,
        operators=sum(1 for event in complete(trace, "cpu_op")),
        kernels=sum(1 for event in complete(trace, "kernel")),
    )


def steps_of(trace: dict[str, Any]) -> list[Range]:
    """The steps on the CPU, in order. On a GPU torch repeats their ranges."""
    found = (range_of(e) for e in complete(trace, "user_annotation") if str(e.get("name")).startswith(_STEP))
    return sorted(found, key=lambda step: step.start_us)


def complete(trace: dict[str, Any], *categories: str) -> Iterator[dict[str, Any]]:
    """The events of these categories that have a start and an end."""
    return (e for e in trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") in categories)


def range_of(event: dict[str, Any]) -> Range:
    start = float(event["ts"])
    thread = f"{event.get('pid')}/{event.get('tid')}"
    return Range(name=str(event.get("name")), start_us=start, end_us=start + float(event.get("dur", 0)), thread=thread)


def add_tracks(trace: dict[str, Any], *, name: str) -> None:
    """Move the marked parts of the steps from among the operators to tracks of their own, add those of the backward
    phase, and memory as counters. `name` is that of the file."""
    marked: dict[Part, list[Range]] = {part: [] for part in PARTS}
    events: list[dict[str, Any]] = []
    for event in trace["traceEvents"]:
        label = part_and_name(str(event.get("name")))
        if label is None:
            events.append(event)
        elif event.get("cat") == "user_annotation" and event.get("ph") == "X":
            part, shown = label
            marked[part].append(replace(range_of(event), name=shown))
        else:  # the same range on a GPU, around its kernels
            events.append({**event, "name": label[1]})
    trace["traceEvents"] = events
    tracks = {f"{part}s": ranges for part, ranges in marked.items()}
    for part in PARTS[1:]:
        tracks[f"{part}s, backward"] = list(_in_backward(trace, marked[part]))
    events += _memory(events)
    events += _metadata([track for track in TRACKS if tracks[track]])
    events += [_slice(each, TRACKS.index(track) + 1) for track in TRACKS for each in tracks[track]]
    trace["traceName"] = name


def _in_backward(trace: dict[str, Any], forward: list[Range]) -> Iterator[Range]:
    """The stretches in which autograd ran the backward operators of each forward range.

    Autograd numbers its nodes in the order of the forward operators: a backward function has the number of the last
    operator that was entered with it.
    """
    operators = [event for event in complete(trace, "cpu_op") if _sequence(event) is not None]
    owners = dict(_owners(forward, (e for e in operators if not e["args"].get("Fwd thread id"))))
    starts = [step.start_us for step in steps_of(trace)]
    last: tuple[str, int] | None = None
    begin = end = 0.0
    for event in sorted((e for e in operators if str(e["name"]).startswith(_BACKWARD)), key=lambda e: float(e["ts"])):
        owner = owners.get(_sequence(event))
        if owner is None:
            continue
        ran = range_of(event)
        found = (owner, bisect_right(starts, ran.start_us))
        if found != last:
            if last is not None:
                yield Range(name=last[0], start_us=begin, end_us=end)
            last, begin, end = found, ran.start_us, ran.end_us
        end = max(end, ran.end_us)
    if last is not None:
        yield Range(name=last[0], start_us=begin, end_us=end)


def _owners(ranges: list[Range], operators: Iterable[dict[str, Any]]) -> Iterator[tuple[int | None, str | None]]:
    """Each operator's number, in their order, with the name of the innermost range around it, if there is one."""
    waiting = sorted(ranges, key=lambda r: (-r.start_us, r.end_us))
    open_ranges: dict[str, list[Range]] = {}
    for operator in sorted(operators, key=lambda e: float(e["ts"])):
        ran = range_of(operator)
        while waiting and waiting[-1].start_us <= ran.start_us:
            entered = waiting.pop()
            open_ranges.setdefault(entered.thread, []).append(entered)
        around = open_ranges.get(ran.thread, [])
        while around and around[-1].end_us < ran.start_us:
            around.pop()
        yield _sequence(operator), around[-1].name if around else None


def _sequence(event: dict[str, Any]) -> int | None:
    number = event.get("args", {}).get("Sequence number")
    return number if isinstance(number, int) and number >= 0 else None


def _memory(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Counters of what torch's allocators have handed out."""
    return [
        {
            "ph": "C",
            "name": f"allocated on {_DEVICES[device]}, MiB",
            "pid": PROCESS,
            "tid": 0,
            "ts": event["ts"],
            "args": {"MiB": round(total / 2**20, 3)},
        }
        for event in events
        if event.get("name") == "[memory]"
        for args in [event.get("args", {})]
        for device, total in [(args.get("Device Type"), args.get("Total Allocated"))]
        if device in _DEVICES and isinstance(total, int)
    ]


def _metadata(tracks: list[str]) -> list[dict[str, Any]]:
    """Names and order of the tracks."""
    made = [_named("process_name", 0, name="StatsNet"), _named("process_sort_index", 0, sort_index=-1)]
    for track in tracks:
        number = TRACKS.index(track) + 1
        made += [_named("thread_name", number, name=track), _named("thread_sort_index", number, sort_index=number)]
    return made


def _named(what: str, thread: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": PROCESS, "tid": thread, "ts": 0, "args": args}


def _slice(each: Range, thread: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "statsnet",
        "name": each.name,
        "pid": PROCESS,
        "tid": thread,
        "ts": each.start_us,
        "dur": round(each.end_us - each.start_us, 3),
    }
