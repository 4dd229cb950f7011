"""Steps recorded for a person to look at: a trace for Perfetto, or what the interpreter did for speedscope.

They run in a process of their own, after whatever is measured, and nothing of them enters a signature or a result.
"""

from __future__ import annotations

import gzip
import itertools
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from statsnet import environment
from statsnet.environment.temporary import temporary_folder
from statsnet.errors import MeasurementError, WorkloadError
from statsnet.measure import process
from statsnet.measure.control import DEFAULT, Control
from statsnet.measure.network_file import load_network
from statsnet.measure.task import Context, Progress, Task
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.marks import Phases, marked_modules, marked_proxy
from statsnet.profiling.speedscope import interpreter_profile
from statsnet.profiling.trace_tracks import RecordedSteps, add_tracks, recorded_steps
from statsnet.profiling.workload_trace import in_one_piece
from statsnet.progress import Report, silent
from statsnet.signatures.canonical import write_bytes_atomically
from statsnet.workloads import Successive, make_step
from statsnet.workloads.settings import convert_module, wrap_step

Form = Literal["perfetto", "speedscope"]

WARM_UPS, RECORDED = 3, 3
LONG_STEP_S = 2.0
"""A step that takes longer is warmed up and recorded once."""

_FILE = "recording.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a file holds. `python_share` is the part of the steps' time that lies in Python's functions and in no
    operator; None in a trace."""

    steps: RecordedSteps
    python_share: float | None = None


@dataclass(frozen=True, kw_only=True)
class RecordingTask(Task[Recorded]):
    """Records steps into the folder `into`, a temporary one; `name` is that of the file that it becomes."""

    form: Form = "perfetto"
    into: str = ""
    name: str = ""
    device: str = "cpu"

    def record(
        self,
        run: Callable[[], Any],
        context: Context,
        *,
        prepare: Callable[[], object] = lambda: None,
        after: Callable[[], object] = lambda: None,
    ) -> Recorded:
        """Warm a step up and record it. `prepare` runs before each step and is no part of it; `after` leaves what the
        step has entered. Raises MeasurementError if nothing was recorded."""

        def step() -> None:
            run()
            if self.on_gpu:
                torch.cuda.synchronize()
            after()

        context.report(Progress(stage="warming up a step to record it"))
        last_s = _warm_up(step, prepare)
        context.report(Progress(stage="recording steps", done=0.5))
        trace = _recorded(
            step, prepare, 1 if last_s > LONG_STEP_S else RECORDED, on_gpu=self.on_gpu, form=self.form,
            file=Path(self.into, _FILE),
        )  # fmt: skip
        steps = recorded_steps(trace)
        if not steps.operators:
            raise MeasurementError(
                "nothing was recorded",
                cause="torch's profiler saw no operator in the steps",
                hint="another profiler may be on: record without it",
            )
        document, python_share = trace, None
        if self.form == "speedscope":
            found = interpreter_profile(trace, self.name)
            document, python_share = found.document, found.python_share
        else:
            add_tracks(trace, name=self.name)
        Path(self.into, _FILE).write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")
        return Recorded(steps=steps, python_share=python_share)

    @property
    def on_gpu(self) -> bool:
        return self.device.startswith("cuda")


@dataclass(frozen=True, kw_only=True)
class RecordWorkload(RecordingTask):
    """Records a workload's steps, with its phases and modules."""

    model: Model

    def run(self, context: Context) -> Recorded:
        setting = context.setting
        context.report(Progress(stage="building the model to record it"))
        environment.select(self.device)
        built = self.model.build(self.device)
        convert_module(setting, built.model)
        step = make_step(built, optimizer=self.model.optimizer)
        turn = Successive(step, itertools.count(), step.prepare)
        phases = Phases(on_gpu=self.on_gpu)
        marks: AbstractContextManager[Any] = nullcontext()
        if not in_one_piece(setting):
            step.on_phase = phases.enter
            marks = marked_modules(built.model, on_gpu=self.on_gpu)
        with marks:
            steps = wrap_step(setting, turn, built.device)
            return self.record(steps, context, prepare=turn.prepare, after=phases.leave)


@dataclass(frozen=True, kw_only=True)
class RecordNetwork(RecordingTask):
    """Records the steps of the network in a folder, with its phases, towers and blocks. With `network_sha256`, it
    refuses any other source."""

    folder: str
    network_sha256: str | None = None

    def run(self, context: Context) -> Recorded:
        setting = context.setting
        environment.select(self.device)
        network = load_network(self.folder, sha256=self.network_sha256)
        proxy = convert_module(setting, network.build(self.device))
        step = network.make_step(proxy, self.device)
        phases = Phases(on_gpu=self.on_gpu)
        marks: AbstractContextManager[Any] = nullcontext()
        if not in_one_piece(setting):
            marks = marked_proxy(network, proxy, phases, on_gpu=self.on_gpu)
        with marks:
            return self.record(wrap_step(setting, step, self.device), context, after=phases.leave)


def record_into(
    file: str | Path, task: RecordingTask, control: Control = DEFAULT, *, report: Report = silent
) -> Recorded:
    """Run the task in a process, and write a file that only its owner may read.

    Raises as `process.run`, and StatsNetError if the file cannot be written.
    """
    path = Path(file)
    with temporary_folder() as folder:
        control = replace(control, writes=(str(folder),))
        recorded = process.run(replace(task, into=str(folder), name=path.name), control, report=report)
        content = Path(folder, _FILE).read_bytes()
    packed = gzip.compress(content, 6, mtime=0) if path.name.lower().endswith(".gz") else content
    write_bytes_atomically(path, packed, owner_only=True)
    return recorded


def _warm_up(step: Callable[[], None], prepare: Callable[[], object]) -> float:
    """The last step's seconds."""
    last_s = 0.0
    for _ in range(WARM_UPS):
        prepare()
        begin = time.perf_counter()
        step()
        last_s = time.perf_counter() - begin
        if last_s > LONG_STEP_S:
            break
    return last_s


def _recorded(
    step: Callable[[], None], prepare: Callable[[], object], count: int, *, on_gpu: bool, form: Form, file: Path
) -> dict[str, Any]:
    """torch's trace of so many steps, each within a range `ProfilerStep#N`, as readers of such traces expect. It goes
    through `file`."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with_python = form == "speedscope"
    if count > 1:  # the first session sets up what later ones reuse
        prepare()
        with profile(activities=activities):
            step()
    with profile(
        activities=activities, record_shapes=not with_python, profile_memory=not with_python, with_stack=with_python
    ) as session:
        for number in range(count):
            prepare()
            with record_function(f"ProfilerStep#{number}"):
                step()
    session.export_chrome_trace(str(file))
    try:
        trace: dict[str, Any] = json.loads(file.read_text(encoding="utf-8", errors="replace"), strict=False)
    except ValueError as error:
        raise WorkloadError(
            "torch's timeline of the step cannot be read",
            cause=f"torch writes the names of ranges as they are, and quotes in them are not closed: {error}",
            hint="take quotes and backslashes out of names given to record_function, or leave out --trace",
        ) from error
    return trace
