"""A profiler's recording as typed events: ranges on the CPU, launches, and what ran on the device.

Kineto has renamed its categories over the years (`Operator`, `Kernel`, `Runtime`; now `cpu_op`, `kernel`,
`cuda_runtime`), and AMD's recorders use the same names as NVIDIA's. Python functions are not read.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from statsnet.measure.device_kernels import Kernel
from statsnet.measure.profiler_events import Event
from statsnet.progress import Report, silent
from statsnet.recordings.arguments import Arguments, KnownArguments
from statsnet.recordings.copies import first_of_each
from statsnet.recordings.json_events import ChromeTrace
from statsnet.recordings.phases import STEP
from statsnet.recordings.process_groups import NAME, Noted, noted_in_timeline
from statsnet.recordings.trace_fields import is_too_late, nanoseconds, three_sizes, whole, whole_events
from statsnet.signatures.collectives import Backend, backend_of
from statsnet.signatures.limits import MOST_PROCESSES

Kind = Literal["operator", "annotation", "launch"]

_KINDS: dict[str, Kind] = {"cpu_op": "operator", "operator": "operator", "user_annotation": "annotation"}
_ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "memcpy", "gpu_memset", "memset", "hpu_op", "mtia_ccp_events"})
"""With the devices of other makers (libkineto's list of activities), whose launches may not be recorded."""


@dataclass(slots=True, eq=False)
class RecordedEvent(Event):
    """A range on the CPU. `lost` counts the kernels that it launched and whose times were not recorded; `launched` is
    the kernel's name where the launch itself tells it, `noted` what a process group notes of a collective. `number` is
    the recorder's own of the call."""

    kind: Kind = "operator"
    arguments: Arguments | None = None
    lost: int = 0
    launched: str = ""
    record_id: int | None = None
    number: int | None = None
    noted: Noted | None = None

    @property
    def has_work(self) -> bool:
        return bool(self.kernels) or self.lost > 0

    @property
    def is_graph(self) -> bool:
        return self.kind == "launch" and "GraphLaunch" in self.name


@dataclass(slots=True, kw_only=True)
class Recording:
    """`steps` are the marked steps by number; `head` the file's fields beside its events. `unlaunched` counts what ran
    on the device without a launch in the file, `lost` what has no times; `devices` how much ran on each. `merged` is
    how many processes the file holds: all else is of one. `copies` were left out, for the file holds the same events
    twice. `is_ambiguous` says that different launches have one number, so that nobody can tell whose a kernel is.
    `undated` events begin later than any clock counts."""

    threads: dict[tuple[str, str], list[RecordedEvent]] = field(default_factory=dict)
    steps: list[tuple[int, RecordedEvent]] = field(default_factory=list)
    head: dict[str, Any] = field(default_factory=dict)
    unlaunched: int = 0
    lost: int = 0
    devices: dict[int, int] = field(default_factory=dict)
    merged: int = 1
    copies: int = 0
    undated: int = 0
    is_ambiguous: bool = False

    @property
    def events(self) -> Iterator[RecordedEvent]:
        return (event for events in self.threads.values() for event in events)

    @property
    def operators(self) -> Iterator[RecordedEvent]:
        return (event for event in self.events if event.kind == "operator")

    @property
    def has_shapes(self) -> bool:
        """Whether the arguments of at least one operator are known."""
        return any(event.arguments is not None for event in self.operators)

    @property
    def has_numbers(self) -> bool:
        """Whether the arguments that are no tensors are known of at least one operator."""
        return any(event.arguments is not None and event.arguments.values is not None for event in self.operators)

    @property
    def processes(self) -> int:
        """How many made the steps together: as the file says, else the largest group."""
        told = self.head.get("distributedInfo")
        world = whole(told.get("world_size")) if isinstance(told, dict) else None
        if world is not None and 0 < world <= MOST_PROCESSES:
            return world
        return max((e.noted.processes for e in self.operators if e.noted), default=1)

    @property
    def backend(self) -> Backend:
        """What moved data between processes' GPUs: as the file says, else by the names of kernels."""
        told = self.head.get("distributedInfo")
        named = backend_of(str(told.get("backend")), "cuda") if isinstance(told, dict) else "other"
        ran = any("nccl" in kernel.name.lower() for event in self.events for kernel in event.kernels)
        return "nccl" if ran and named == "other" else named

    @property
    def has_kernels(self) -> bool:
        """Whether of at least one kernel it is known what launched it."""
        return self.on_device > self.unlaunched

    @property
    def on_device(self) -> int:
        """How many kernels and copies ran on any device."""
        return sum(self.devices.values())


def read_chrome_trace(path: Path, report: Report = silent) -> Recording:
    """Raises FileFormatError for a file that is no trace, or is cut short or damaged."""
    trace = ChromeTrace(path, report)
    reader = _Reader()
    with _no_collection():
        for event in whole_events(trace):
            reader.take(event)
    reader.recording.head = trace.head
    return reader.finish()


class _Ran(NamedTuple):
    """A kernel or copy; `kernel` is None if its times were not recorded."""

    correlation: int | None
    device: int
    kernel: Kernel | None


def _span_of(ran: _Ran) -> tuple[int, int]:
    return (0, 0) if ran.kernel is None else (ran.kernel.start_ns, ran.kernel.end_ns)


class _Reader:
    def __init__(self) -> None:
        self.recording = Recording()
        self._ran: list[_Ran] = []
        self._launches: dict[int, RecordedEvent] = {}
        self._launched_by: dict[int, str] = {}
        self._reused: set[int] = set()
        self._arguments = KnownArguments()
        self._names: dict[str, str] = {}

    def take(self, event: dict[str, Any]) -> None:
        category = str(event.get("cat", "")).lower()
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        if category in _ON_DEVICE:
            self._take_kernel(event, args)
            return
        kind = _KINDS.get(category) or ("launch" if category.endswith(("runtime", "driver")) else None)
        start_ns, length_ns = nanoseconds(event.get("ts")), nanoseconds(event.get("dur"))
        if kind is None or start_ns is None:
            self.recording.undated += kind is not None and is_too_late(event.get("ts"))
            return
        name = self._name(event)
        made = RecordedEvent(name, start_ns, start_ns + max(length_ns or 0, 0), [], kind=kind)
        if kind == "launch":
            made.launched = self._names.setdefault(str(args.get("kernel", "")), str(args.get("kernel", "")))
            if (correlation := whole(args.get("correlation"))) is not None:
                made.number = correlation
                first = self._launches.setdefault(correlation, made)
                if made.start_ns > first.end_ns or first.start_ns > made.end_ns:
                    self._reused.add(correlation)
                process = self._launched_by.setdefault(correlation, str(event.get("pid")))
                self.recording.is_ambiguous |= process != str(event.get("pid"))
        elif step := STEP.match(name):
            made.kind = "annotation"
            if made.end_ns > made.start_ns:
                self.recording.steps.append((int(step[1]), made))
        elif kind == "operator":
            made.arguments = self._read_arguments(args)
            made.record_id = whole(args.get("Record function id"))
            made.number = whole(args.get("External id", args.get("external id")))
            if name == NAME:
                made.noted = noted_in_timeline(args)
        self.recording.threads.setdefault((str(event.get("pid")), str(event.get("tid"))), []).append(made)

    def finish(self) -> Recording:
        """Each kernel to the launch with its correlation, all of them once, and one process alone."""
        self._drop_copies()
        for ran in self._ran:
            launch = None if ran.correlation is None else self._launches.get(ran.correlation)
            if launch is not None and ran.kernel is None:
                launch.lost += 1
            elif launch is not None and ran.kernel is not None:
                launch.kernels.append(ran.kernel)
            self.recording.is_ambiguous |= ran.correlation in self._reused
        left_out = self._processes_but_one()
        self._leave_out(left_out)
        self._count(left_out)
        return self.recording

    def _drop_copies(self) -> None:
        """Of events that agree in all that tells events apart, keep the first."""
        recording, before = self.recording, sum(map(len, self.recording.threads.values())) + len(self._ran)
        for key, events in recording.threads.items():
            recording.threads[key] = first_of_each(
                events, lambda e: (e.start_ns, -e.end_ns), lambda e: (e.name, e.number)
            )
        kept = {id(event) for events in recording.threads.values() for event in events}
        recording.steps = [(number, event) for number, event in recording.steps if id(event) in kept]
        lost = [ran for ran in self._ran if ran.kernel is None]
        timed = [ran for ran in self._ran if ran.kernel is not None]
        self._ran = lost + first_of_each(timed, _span_of, lambda ran: ran)
        recording.copies = before - len(kept) - len(self._ran)

    def _processes_but_one(self) -> set[str]:
        """If somebody put recordings of several processes with operators into one file: all processes but the one with
        the most kernel time, then with the most events."""
        work: dict[str, list[int]] = {}
        for (process, _), events in self.recording.threads.items():
            if any(e.kind == "operator" for e in events):
                busy_ns = sum(k.end_ns - k.start_ns for e in events for k in e.kernels)
                before = work.get(process, [0, 0])
                work[process] = [before[0] + busy_ns, before[1] + len(events)]
        self.recording.merged = max(len(work), 1)
        return work.keys() - {max(work, key=lambda process: work[process], default="")}

    def _leave_out(self, processes: set[str]) -> None:
        threads = self.recording.threads
        left_out = {id(event) for key, events in threads.items() if key[0] in processes for event in events}
        self.recording.threads = {key: events for key, events in threads.items() if key[0] not in processes}
        self.recording.steps = [(n, event) for n, event in self.recording.steps if id(event) not in left_out]

    def _count(self, left_out: set[str]) -> None:
        """What ran on the device, but for processes. What no launch tells the process of is left out where only these
        launched anything."""
        process_of = [None if r.correlation is None else self._launched_by.get(r.correlation) for r in self._ran]
        placed = list(zip(process_of, self._ran, strict=True))
        of_others = {ran.device for process, ran in placed if process in left_out}
        of_others -= {ran.device for process, ran in placed if process is not None and process not in left_out}
        devices = self.recording.devices
        for process, ran in placed:
            if process in left_out or (process is None and ran.device in of_others):
                continue
            devices[ran.device] = devices.get(ran.device, 0) + 1
            self.recording.unlaunched += process is None
            self.recording.lost += ran.kernel is None

    def _take_kernel(self, event: dict[str, Any], args: dict[str, Any]) -> None:
        start_ns, length_ns = nanoseconds(event.get("ts")), nanoseconds(event.get("dur"))
        kernel = None
        if start_ns and length_ns is not None and length_ns >= 0:  # Kineto writes zeros where its buffer was full
            kernel = Kernel(
                name=self._name(event), start_ns=start_ns, end_ns=start_ns + length_ns,
                stream=whole(args.get("stream")) or 0,
                grid=three_sizes(args.get("grid")), block=three_sizes(args.get("block")),
            )  # fmt: skip
        self._ran.append(_Ran(whole(args.get("correlation")), whole(args.get("device")) or 0, kernel))

    def _name(self, event: dict[str, Any]) -> str:
        name = str(event.get("name", ""))
        return self._names.setdefault(name, name)

    def _read_arguments(self, args: dict[str, Any]) -> Arguments | None:
        dims = args.get("Input Dims", args.get("Input dims"))
        if not dims:
            return None
        kept = (dims, args.get("Input type"), args.get("Input Strides"), args.get("Concrete Inputs"))
        return self._arguments.same(Arguments(*(v if isinstance(v, list) else None for v in kept)))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Millions of live objects would be walked again and again; none of them is garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
