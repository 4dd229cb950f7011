"""The profiler's events of one step, nested, from Kineto's own records.

torch builds its own `FunctionEvent`s from the same records, which takes half a second per ten thousand. The records lie
in the heap between the step's tensors. If sessions keep their records, the gaps fill up that tensors would use, and the
step pays for gigabytes of fresh memory. So a session is read and emptied at once.
"""

from __future__ import annotations

import itertools
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any
from unittest.mock import patch

import torch
from torch._C._autograd import DeviceType
from torch._C._profiler import _ExperimentalConfig, _RecordFunctionFast
from torch.profiler import ProfilerActivity, profile, record_function

from statsnet.errors import ModelError
from statsnet.measure.device_kernels import Kernel, Span, kernel_of, union
from statsnet.measure.tracing import Traces, tracing_wrapped

STEP_LABEL = "statsnet:step"
STOPPED = "statsnet:stopped"
"""Marks an operator that was broken off."""
TRACED = "statsnet:traced"
"""Marks where torch traces on tensors without data: events inside it are no work."""
PACKAGED = "AOTInductor package"
"""Marks where a package runs that was compiled ahead of time, which shows torch few of its operators."""

_WITHOUT_WORK = frozenset(
    ("[memory]", "[OutOfMemory]", "profiler::_record_function_enter", "profiler::_record_function_enter_new",
     "profiler::_record_function_exit", "aten::is_leaf", "aten::output_nr", "aten::_version")
)  # fmt: skip


_WORKS = ("gloo:", "mpi:", "ucc:")
"""How the names of works begin that a process group does on the CPU."""


@dataclass(slots=True, eq=False)
class Event:
    """A range on the CPU, in nanoseconds of the profiler's clock. `children` are the ranges directly inside it, by
    their start; `kernels` are the device's kernels that it launched itself."""

    name: str
    start_ns: int
    end_ns: int
    shapes: list[Any]
    children: list[Event] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)

    @property
    def elapsed_s(self) -> float:
        return (self.end_ns - self.start_ns) * 1e-9

    def within(self) -> Iterator[Event]:
        """The event, and all inside it; each before those that are inside it."""
        stack = [self]
        while stack:
            event = stack.pop()
            yield event
            stack.extend(event.children)


@dataclass(slots=True, kw_only=True)
class StepEvents:
    """The profiler's events of one step, each list sorted by start: on the CPU all events `inside` it and the outermost
    ones (`roots`), and what ran on the device. `works` are of collectives: they
    began in the step and ended in another thread, as gloo's do."""

    step: Event
    inside: list[Event]
    roots: list[Event]
    on_device: list[Kernel]
    works: list[Event] = field(default_factory=list)

    @classmethod
    def take(cls, session: profile) -> StepEvents:
        """Read a session's events and empty it."""
        results = session.profiler.kineto_results  # type: ignore[union-attr]
        session.profiler.kineto_results = None  # type: ignore[union-attr]
        return cls.of(results.events())  # type: ignore[union-attr]

    @classmethod
    def of(cls, records: list[Any]) -> StepEvents:
        """From Kineto's records."""
        threads, launched_by, works = _cpu_events(records)
        ran: list[tuple[Kernel, Event | None]] = []
        for record in records:
            # Kineto repeats ranges, such as the step's own, on the device. There they would hide the gaps.
            if _on_cpu(record) or record.is_user_annotation() or record.name() == STEP_LABEL:
                continue
            kernel = kernel_of(record)
            launcher = launched_by.get(record.linked_correlation_id())
            ran.append((kernel, launcher))
            if launcher is not None:
                launcher.kernels.append(kernel)
        step = next((e for events in threads.values() for e in events if e.name == STEP_LABEL), None)
        if step is None:
            raise ModelError(
                "the step cannot be profiled",
                cause="it runs a profiler of its own (torch.profiler, torch.autograd.profiler), and torch has only one",
                hint="leave torch's profiler out meanwhile",
            )
        # Before the step, processes wait for each other. The device's clock may be a little off: a launch tells more.
        on_device = [kernel for kernel, by in ran if (by or kernel).start_ns >= step.start_ns]
        return cls.joined(threads.values(), step, on_device, works)

    @classmethod
    def joined(
        cls,
        threads: Iterable[Sequence[Event]],
        step: Event,
        on_device: Iterable[Kernel],
        works: Iterable[Event] = (),
    ) -> StepEvents:
        """Nest the events of each thread, and keep those that start within the step, on whatever thread: autograd has
        threads of its own. `step` need not be among them."""
        return NestedEvents(threads).of_step(step, on_device, works)


class NestedEvents:
    """The events of several threads, nested and in order: each of many steps is found among them at once."""

    def __init__(self, threads: Iterable[Sequence[Event]]) -> None:
        lists = list(threads)
        self._outermost = sorted((event for events in lists for event in _nest(events)), key=_start)
        self._all = sorted((event for events in lists for event in events), key=_start)

    def of_step(self, step: Event, on_device: Iterable[Kernel] = (), works: Iterable[Event] = ()) -> StepEvents:
        """Those that start within the step, on whatever thread; `step` need not be among them."""
        begin_ns, end_ns = step.start_ns, max(step.end_ns, step.start_ns + 1)

        def during(events: Sequence[Event]) -> list[Event]:
            first, last = (bisect_left(events, ns, key=_start) for ns in (begin_ns, end_ns))
            return [event for event in events[first:last] if event is not step]

        return StepEvents(
            step=step,
            inside=during(self._all),
            roots=sorted([*step.children, *during(self._outermost)], key=_start),
            on_device=sorted(on_device, key=lambda kernel: kernel.start_ns),
            works=during(sorted(works, key=_start)),
        )


@contextmanager
def profiling(
    device: str,
    *,
    record_shapes: bool = False,
    all_threads: bool = False,
    ready: Callable[[], object] = lambda: None,
) -> Iterator[profile]:
    """The `with` block is one step under the profiler; with `all_threads` also threads that a model made itself.
    `ready` is called just before it, when the profiler runs: starting that takes milliseconds."""
    activities = [ProfilerActivity.CPU]
    if device == "cuda":
        activities.append(ProfilerActivity.CUDA)
    config = _config(all_threads=all_threads, with_metadata=device == "cuda")
    with (
        _stops_marked(),
        _packages_marked(),
        tracing_wrapped(_marked),
        profile(activities=activities, record_shapes=record_shapes, experimental_config=config) as session,
    ):
        ready()
        with record_function(STEP_LABEL):
            yield session
            if device == "cuda":
                torch.cuda.synchronize()


@contextmanager
def _stops_marked() -> Iterator[None]:
    """A checkpoint's recomputation ends as soon as all is there that backward needs: by an exception in the midst of an
    operator, whose event then holds the mark STOPPED."""
    stop: Any = getattr(sys.modules.get("torch.utils.checkpoint"), "_StopRecomputationError", None)
    if stop is None:
        yield
        return

    def mark(*_: Any) -> None:
        with _RecordFunctionFast(STOPPED):  # no operator, which a selective checkpoint would look for in what it kept
            pass

    with patch.object(stop, "__init__", mark):
        yield


@contextmanager
def _packages_marked() -> Iterator[None]:
    def marked(runs: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            with _RecordFunctionFast(PACKAGED):
                return runs(*args, **kwargs)

        return run

    loaders = [loader for loader in vars(getattr(torch._C, "_aoti", None) or object).values() if hasattr(loader, "run")]
    with ExitStack() as stack:
        for loader, name in itertools.product(loaders, ("run", "boxed_run")):
            if hasattr(loader, name):
                stack.enter_context(patch.object(loader, name, marked(getattr(loader, name))))
        yield


def _marked(traces: Traces) -> Traces:
    @wraps(traces)
    def trace(*args: Any, **kwargs: Any) -> Any:
        with _RecordFunctionFast(TRACED):  # unlike record_function, no operator that would be traced too
            return traces(*args, **kwargs)

    return trace


def _config(*, all_threads: bool, with_metadata: bool) -> _ExperimentalConfig | None:
    """Has the profiler see all threads, and Kineto's records carry what a kernel's grid and block are read from; None
    where neither is wanted, or this torch can do neither."""
    wanted = {"profile_all_threads": all_threads, "expose_kineto_event_metadata": with_metadata}
    known: dict[str, Any] = {name: True for name, is_wanted in wanted.items() if is_wanted and _knows(name)}
    return _ExperimentalConfig(**known) if known else None


def _knows(option: str) -> bool:
    asked: dict[str, Any] = {option: True}
    try:
        _ExperimentalConfig(**asked)
    except TypeError:
        return False
    return True


def _cpu_events(records: list[Any]) -> tuple[dict[int, list[Event]], dict[int, Event], list[Event]]:
    """Events of each thread, not nested yet; operators among them by correlation id; what ends in another thread."""
    threads: dict[int, list[Event]] = {}
    works: list[tuple[int, Event]] = []
    operators: dict[int, Event] = {}
    thread_of: dict[int, int] = {}
    linked: list[tuple[int, int, Event]] = []
    for record in records:
        name = record.name()
        if not _on_cpu(record) or name in _WITHOUT_WORK:
            continue
        thread = record.start_thread_id()
        if record.is_async() or record.end_thread_id() != thread:
            if name.startswith(_WORKS):  # NCCL's works end with their launch; any other range is of somebody's own
                works.append((thread, Event(name, record.start_ns(), record.end_ns(), [])))
            continue
        event = Event(name, record.start_ns(), record.end_ns(), record.shapes())
        if operator := record.linked_correlation_id():
            linked.append((operator, thread, event))
            continue
        operators[record.correlation_id()] = event
        thread_of[record.correlation_id()] = thread
        threads.setdefault(thread, []).append(event)
    for operator, thread, event in linked:  # the CUDA runtime numbers threads in its own way
        threads.setdefault(thread_of.get(operator, thread), []).append(event)
    for thread, events in threads.items():
        working = union((work.start_ns, work.end_ns) for own, work in works if own == thread)
        if working and not any(event.name == STEP_LABEL for event in events):
            # Operators that a collective uses are its own.
            threads[thread] = [e for e in events if not _holds(working, e.start_ns)]
    return threads, operators, [work for _, work in works]


def _holds(spans: Sequence[Span], time_ns: int) -> bool:
    """Whether one of the spans, which do not touch, holds a time; each also holds its end."""
    place = bisect_right(spans, time_ns, key=lambda span: span[0])
    return place > 0 and time_ns <= spans[place - 1][1]


def _nest(events: Sequence[Event]) -> list[Event]:
    """Give the events of one thread their children, but none to TRACED. Returns those that lie in no other."""
    outermost: list[Event] = []
    around: list[Event] = []
    for event in sorted(events, key=lambda e: (e.start_ns, -e.end_ns)):
        event.children = []
        while around and (event.start_ns >= around[-1].end_ns or event.end_ns > around[-1].end_ns):
            around.pop()
        if not around or around[-1].name != TRACED:
            (around[-1].children if around else outermost).append(event)
        around.append(event)
    return outermost


def _start(event: Event) -> int:
    return event.start_ns


def _on_cpu(record: Any) -> bool:
    return bool(record.device_type() == DeviceType.CPU)
