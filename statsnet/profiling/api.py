"""`statsnet.profile`: a signature of the user's own training or inference loop.

    with statsnet.profile("my-model", output="my-model.json") as p:
        for batch in loader:
            train_step(batch)
            p.step()

Capturing and profiling both slow a step down, so that one step cannot be captured, timed and profiled at once.
Instead the steps take turns: two warm-ups, then rounds of three, of which one is captured, one profiled and one
left alone. If shapes vary, the three see different inputs; `joining` puts them together.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from contextlib import ExitStack
from dataclasses import replace
from statistics import fmean, median
from types import TracebackType
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from statsnet import environment
from statsnet.errors import MeasurementError, UsageError
from statsnet.measure.profiler_events import StepEvents, profiling
from statsnet.profiling.build_signature import build_signature, dtype_of_results, mode_of
from statsnet.profiling.capture import CaptureMode, capturing
from statsnet.profiling.joining import StepJoin
from statsnet.profiling.memory import memory_record
from statsnet.profiling.timeline import event_overhead_s
from statsnet.profiling.trace import StepTrace
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.levels import DEFAULT_LEVEL, LEVELS, coarsen
from statsnet.signatures.model import Level, Measurement, Signature
from statsnet.signatures.public_names import safe_optimizer
from statsnet.signatures.storage import save_signature

WARMUPS = 2
ROUND = ("capture", "profile", "bare")
MAX_ROUNDS = 20
"""After this many rounds the loop runs on undisturbed."""

SMALLEST_NUMBER_OF_STEPS = WARMUPS + len(ROUND)
BARE_SAMPLES = 5
"""If shapes vary, the bare steps are averaged into this many samples."""


class profile:
    """Profile the steps of a loop; `step()` ends one. After the block, `signature` is the result.

    `name` is for messages: it never enters the signature. `output` is where to write it, `level` how much it tells
    (signatures/levels.py). `model` adds the memory of its parameters. `optimizer` names the optimizer in case it is not
    recognised, `batch` is the batch size. `estimated_share` is the share of operator time that was not measured at its
    own shapes but estimated from other shapes of the same operator (0 where the steps' shapes do not vary).
    Whatever the loop does between two calls of `step()`, such as loading data in this process, is part of a
    step. Models compiled with torch.compile are not captured.

    Raises MeasurementError at the end of the block for fewer than SMALLEST_NUMBER_OF_STEPS steps, UsageError
    if another `profile` is active, DeviceError for a device that is not there. An exception inside the block
    passes through, and nothing is written.
    """

    _active = False

    def __init__(
        self,
        name: str,
        *,
        output: str | os.PathLike[str] | None = None,
        device: str = "cpu",
        model: torch.nn.Module | None = None,
        optimizer: str | None = None,
        batch: int | None = None,
        level: Level = DEFAULT_LEVEL,
    ) -> None:
        if level not in LEVELS:
            raise UsageError(f"'{level}' is not a level", hint=f"one of {', '.join(LEVELS)}")
        self.name = name
        self._level = level
        self.signature: Signature | None = None
        self.estimated_share = 0.0
        self._output = output
        self._device = device
        self._kind = device.partition(":")[0]
        self._model = model
        self._optimizer = None if optimizer is None else safe_optimizer(optimizer)
        self._batch = batch
        self._steps = 0
        self._schedule = _Schedule()
        self._stack = ExitStack()
        self._latency_s: dict[str, list[float]] = {"warmup": [], "bare": []}
        self._running: str | None = None

    def __enter__(self) -> profile:
        if profile._active:
            raise UsageError(
                f"'{self.name}' cannot be profiled inside another statsnet.profile",
                cause="each would measure what the other adds",
                hint="profile one loop after the other",
            )
        self._environment = environment.describe(self._device)
        overhead_s = event_overhead_s(record_shapes=True)
        self._join = StepJoin(device=self._kind, event_overhead_s=overhead_s)
        self._begin()
        profile._active = True
        return self

    def step(self) -> None:
        """End a step and begin the next. Raises UsageError outside the `with` block."""
        if self._running is None:
            raise UsageError(f"'{self.name}': step() was called outside the with block")
        self._synchronize()
        elapsed_s = time.perf_counter() - self._began
        kind, capture, session = self._running, self._capture, self._session
        self._stack.close()
        self._steps += 1
        if kind in self._latency_s:
            self._latency_s[kind].append(elapsed_s)
        if capture is not None:
            for call in capture.calls:
                call.metadata = is_metadata(call.op)
            self._join.add_captured(capture.calls)
        if session is not None:
            self._join.add_profiled(StepEvents.take(session))
        self._begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()  # drop the unfinished step
        profile._active, self._running = False, None
        if kind is not None:
            return
        if self._steps < SMALLEST_NUMBER_OF_STEPS:
            raise MeasurementError(
                f"'{self.name}' had {self._steps} steps, {SMALLEST_NUMBER_OF_STEPS} are needed",
                cause="some steps warm up; others are captured, timed and profiled in turn",
                hint="run the loop longer (30 steps are good), and call step() at the end of each",
            )
        signature = coarsen(self._build(), self._level)
        if self._output is not None:
            save_signature(self._output, signature)
        self.signature = signature

    def _begin(self) -> None:
        """Set the next step up, outside its timing."""
        self._running = self._schedule.next()
        self._capture: CaptureMode | None = None
        self._session: Any = None
        if self._running == "capture":
            handle = register_optimizer_step_pre_hook(self._see_optimizer)
            self._stack.callback(handle.remove)
            self._capture = self._stack.enter_context(capturing(self._kind))
        elif self._running == "profile":
            self._session = self._stack.enter_context(profiling(self._kind, record_shapes=True))
        self._synchronize()
        self._began = time.perf_counter()

    def _synchronize(self) -> None:
        if self._kind == "cuda":
            torch.cuda.synchronize(self._device)

    def _see_optimizer(self, optimizer: Any, *_: Any) -> None:
        if self._optimizer is None:
            own = not type(optimizer).__module__.startswith("torch.optim")
            self._optimizer = "custom" if own else safe_optimizer(type(optimizer).__name__)

    def _build(self) -> Signature:
        joined, variants = self._join.finish(), self._join.variants
        self.estimated_share = joined.estimated_share
        samples = _samples(self._latency_s["bare"], len(variants))
        traces = [
            StepTrace(
                device=self._kind,
                calls=variant.calls,
                implementations=joined.implementations[number],
                warmup_latency_s=self._latency_s["warmup"] if number == 0 else [],
                step_latency_s=samples,  # the inputs of a bare step are not known: every variant gets all of them
                profiled_latency_s=joined.step_s if number == 0 else [],
                framework_time_s=joined.framework_s,
                idle_time_s=joined.idle_s,
                kernels_launched=joined.kernels_launched,
            )
            for number, variant in enumerate(variants)
        ]
        calls = [call for trace in traces for call in trace.calls]
        mode = mode_of(calls)
        signature = build_signature(
            traces,
            shares=[float(variant.times) for variant in variants],
            mode=mode,
            dtype=dtype_of_results(calls),
            memory=memory_record(self._model, [], None, device=self._kind),
            environment=self._environment,
            batch=self._batch,
            optimizer=self._optimizer if mode == "training" else None,
        )
        measurement = _with_unexplained(signature.measurements[0])
        return replace(signature, measurements=(measurement,))


class _Schedule:
    """The purpose of each step. The order changes from the second round on: otherwise, in a loop whose inputs
    repeat, one kind of step could always get the same inputs."""

    def __init__(self) -> None:
        self._random = random.Random(0)
        self._coming = ["warmup"] * WARMUPS
        self._rounds = 0

    def next(self) -> str:
        if not self._coming and self._rounds < MAX_ROUNDS:
            self._coming = self._random.sample(ROUND, len(ROUND)) if self._rounds else list(ROUND)
            self._rounds += 1
        return self._coming.pop(0) if self._coming else "none"


def _samples(latency_s: list[float], variants: int) -> list[float]:
    """Raw samples. If shapes vary, means of successive ones, so that each stands for an average step."""
    if variants == 1:
        return latency_s
    count = min(BARE_SAMPLES, max(1, len(latency_s) // variants))
    edges = [round(i * len(latency_s) / count) for i in range(count + 1)]
    return [fmean(latency_s[a:b]) for a, b in itertools.pairwise(edges)]


def _with_unexplained(measurement: Measurement) -> Measurement:
    """Samples of an average step: the bare steps' inputs are not known, nor is their share in each variant."""
    latency_s = median(measurement.step_latency_s)
    rest = (measurement.framework_time_s or 0.0) + (measurement.idle_time_s or 0.0)
    explained = measurement.operator_time_s + rest
    return replace(measurement, unexplained_share=abs(latency_s - explained) / latency_s)
