"""Any recording, read in a process of its own.

Readers have torch run operators on tensors without data, and onnx infer shapes, as anybody may have written them down.
What ends the process, hangs or takes all memory must not take the command with it.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from statsnet.errors import MeasurementError
from statsnet.measure import sandbox
from statsnet.measure.control import JOB_LIMIT_S, Control
from statsnet.measure.process import MeasuringProcess
from statsnet.measure.task import Context, Event, Task
from statsnet.progress import Report, silent
from statsnet.recordings.imported import Imported

MOST_LEFT_OUT = 8
"""Operators that may end the process, each of which has the recording read once more without it. If more do, something
else is wrong."""

RUN_LIMIT_S = 60.0
"""Longest run of one operator. Without data it takes milliseconds."""

_CONTROL = Control(label="reading the recording", timeout_s=JOB_LIMIT_S)


@dataclass(frozen=True, kw_only=True)
class ReadRecording(Task[Imported]):
    """Reads one. The other fields are what the kind's reader takes; operators `left_out` are not run, and each other
    one for `run_limit_s` at most."""

    trace: str
    kind: Literal["chrome_trace", "execution_trace", "onnx"] = "chrome_trace"
    step: int | None = None
    mode: str | None = None
    capture: str | None = None
    execution_trace: str | None = None
    ncu: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    run_limit_s: float = RUN_LIMIT_S

    @property
    def measured_device(self) -> str:
        return "meta"

    @property
    def files(self) -> list[Path]:
        """All that are read."""
        return [Path(f) for f in (self.trace, self.capture, self.execution_trace, self.ncu) if f is not None]

    def run(self, context: Context) -> Imported:
        from statsnet.profiling.replay_limits import memory_limit
        from statsnet.recordings.described import guarded

        def begin(op: str) -> None:
            context.say(Event(operator=op))
            signal.setitimer(signal.ITIMER_REAL, self.run_limit_s if op else 0)  # the only thing that ends torch

        try:
            with memory_limit("cpu"), guarded(begin, self.left_out):
                return self._read(context.report)
        except MemoryError:
            raise MeasurementError(
                f"'{self.trace}' takes more memory to read than there is", hint="free memory, or record fewer steps"
            ) from None

    def _read(self, report: Report) -> Imported:
        path = Path(self.trace)
        if self.kind == "onnx":
            from statsnet.recordings.onnx_model import read_onnx

            return read_onnx(path, dims=self.dims)
        if self.kind == "execution_trace":
            from statsnet.recordings.execution_trace import read_execution_trace

            return read_execution_trace(path, step=self.step, mode=self.mode)
        from statsnet.recordings.kineto import read_kineto

        capture, execution_trace, ncu = map(_path, (self.capture, self.execution_trace, self.ncu))
        return read_kineto(
            path, step=self.step, mode=self.mode, capture=capture, execution_trace=execution_trace, ncu=ncu,
            report=report,
        )  # fmt: skip


def read_recording(task: ReadRecording, report: Report = silent) -> Imported:
    """What a recording holds. Operators that torch does not survive are left out, each with a note. Raises what the
    kind's reader raises, and MeasurementError if the process ends otherwise, or if it does so with too many operators.
    """
    for file in task.files:
        sandbox.show(file)
    notes: list[str] = []
    while True:
        try:
            found = _in_a_process(task, report)
        except _Ended as ended:
            if len(task.left_out) == MOST_LEFT_OUT:
                raise ended.error from None
            task = replace(task, left_out=(*task.left_out, ended.operator))
            notes.append(
                f"torch cannot work out what {ended.operator} returns, so its calls have no FLOPs and bytes: "
                f"{ended.error.message}"
            )
        else:
            return replace(found, notes=(*found.notes, *notes))


class _Ended(Exception):
    """The process ended while it ran an operator."""

    def __init__(self, operator: str, error: MeasurementError) -> None:
        self.operator, self.error = operator, error


def _in_a_process(task: ReadRecording, report: Report) -> Imported:
    operator = ""
    with MeasuringProcess(task, _CONTROL) as process:
        try:
            for event in process.events():
                if event.progress is not None:
                    report(event.progress)
                operator = operator if event.operator is None else event.operator
            return process.result()
        except MeasurementError as error:
            if operator:
                raise _Ended(operator, error) from error
            raise


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
