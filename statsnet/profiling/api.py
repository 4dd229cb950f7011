"""`statsnet.profile`: a signature of the user's own training or inference loop.

    with statsnet.profile("my-model", output="my-model.json") as p:
        for batch in loader:
            train_step(batch)
            p.step()

Capturing and profiling both slow a step down, so that one step cannot be captured, timed and profiled at once.
Instead the steps take turns: a few warm-ups, then rounds of three, of which one is captured, one profiled and
one left alone. If shapes vary, the three see different inputs; `joining` puts them together.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from statsnet import environment
from statsnet.environment.outputs import check_file
from statsnet.errors import MeasurementError, UsageError, one_of, warn
from statsnet.measure.profiler_events import StepEvents, profiling
from statsnet.profiling.build_signature import build_signature, dtype_of_results, mode_of
from statsnet.profiling.capture import CaptureMode, OpCall, capturing
from statsnet.profiling.collective_record import with_collectives
from statsnet.profiling.costs import cost_of
from statsnet.profiling.distributed import is_first, wait_for_others
from statsnet.profiling.joined_traces import mean_samples, traces_of
from statsnet.profiling.joining import Variant
from statsnet.profiling.loop_steps import LoopSteps, Schedule
from statsnet.profiling.memory import memory_record
from statsnet.profiling.timeline import event_overhead_s
from statsnet.profiling.uneven_inputs import UnevenInputs
from statsnet.signatures.categories import categorize, is_metadata
from statsnet.signatures.levels import DEFAULT_LEVEL, LEVELS, coarsen
from statsnet.signatures.model import Level, Signature
from statsnet.signatures.public_names import safe_optimizer
from statsnet.signatures.storage import save_signature
from statsnet.units import plural
from statsnet.workloads.arguments import optimizer_name, whole_number
from statsnet.workloads.dtypes import MIXED, dtype_of
from statsnet.workloads.optimizers import name_of

RARE = 0.05
"""So small a share of the steps may be of kinds that were never captured."""


class profile:
    """Profile the steps of a loop; `step()` ends one. After the block, `signature` is the result.

    `name` is for messages: it never enters the signature. `output` is where to write it, `level` how much it tells
    (signatures/levels.py). `model` adds the memory of its parameters. `optimizer` names the optimizer in case it is not
    recognised, `batch` is the batch size. `estimated_share` is the share of operator time that was not measured at its
    own shapes but estimated from other shapes of the same operator (0 where the steps' shapes do not vary).
    Where several processes make the steps together, each has such a block; `signature` is of its own operators, with
    what all of them wait for, and the first one writes `output`.
    Whatever the loop does between two calls of `step()`, such as loading data in this process, is part of a
    step.

    Raises MeasurementError at the end of the block for fewer steps than a Schedule needs, and where a part of
    them cannot be seen, such as compiled models and threads of the loop's own (loop_steps.py). Raises UsageError
    if another `profile` is active, DeviceError for a device that is not there; before the loop, what
    `outputs.check_file` raises for an `output` that cannot be written. An exception inside the block passes
    through, and nothing is written.
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
            raise UsageError(f"'{level}' is not a level", hint=one_of(level, LEVELS))
        if model is not None and not isinstance(model, torch.nn.Module):
            raise UsageError(f"{model!r} is no model", cause="a torch.nn.Module is expected, not its class or name")
        device = str(device)  # or a torch.device
        self.name = name
        self._level = level
        self.signature: Signature | None = None
        self.estimated_share = 0.0
        self._output = output
        self._device = device
        self._kind = device.partition(":")[0]
        self._model = model
        self._optimizer = None if optimizer is None else safe_optimizer(optimizer_name(optimizer))
        self._batch = None if batch is None else whole_number(batch, "batch")
        self._steps = 0
        self._schedule = Schedule()
        self._uneven = UnevenInputs()
        self._hearing = ExitStack()
        self._stack = ExitStack()
        self._latency_s: dict[str, list[float]] = {"warmup": [], "bare": []}
        self._optimized = 0
        self._optimizer_steps: Counter[int] = Counter()
        self._bare_optimized: list[int] = []
        self._running: str | None = None
        self._thread: int | None = None

    def __enter__(self) -> profile:
        if profile._active:
            raise UsageError(
                f"'{self.name}' cannot be profiled inside another statsnet.profile",
                cause="each would measure what the other adds",
                hint="profile one loop after the other",
            )
        if self._thread is not None:
            raise UsageError(f"'{self.name}' was profiled before", hint="make a statsnet.profile for each loop")
        if self._output is not None and is_first():
            check_file(Path(self._output))
        self._thread = threading.get_ident()
        self._environment = environment.describe(self._device)
        overhead_s = event_overhead_s(record_shapes=True)
        self._join = LoopSteps(device=self._kind, event_overhead_s=overhead_s)
        # Counted in every step: with gradient accumulation the captured ones are a sample of few.
        self._counting = register_optimizer_step_pre_hook(self._count_optimizer)
        self._hearing.enter_context(self._uneven.heard())
        self._begin()
        profile._active = True
        return self

    def step(self) -> None:
        """End a step and begin the next. Raises UsageError outside the `with` block."""
        if self._running is None:
            raise UsageError(f"'{self.name}': step() was called outside the with block")
        if self._thread != threading.get_ident():
            raise UsageError(
                f"'{self.name}': step() was called in another thread than the with block",
                cause="torch sees the operators of one thread",
                hint="open the with block in the thread that runs the steps",
            )
        self._synchronize()
        elapsed_s = time.perf_counter() - self._began
        kind, capture, session = self._running, self._capture, self._session
        self._stack.close()
        if self._uneven.look():
            self._schedule.end()
            return self._begin()
        self._steps += 1
        optimized, self._optimized = self._optimized, 0
        if kind != "warmup":
            self._optimizer_steps[optimized] += 1
        if kind == "bare":
            self._bare_optimized.append(optimized)
        if kind in self._latency_s:
            self._latency_s[kind].append(elapsed_s)
        if capture is not None:
            for call in capture.calls:
                call.metadata = is_metadata(call.op)
            self._join.add_captured(capture.calls, kind=optimized)
        if session is not None:
            self._join.add_profiled(StepEvents.take(session), kind=optimized)
        self._begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        profile._active, self._running = False, None
        self._counting.remove()
        self._stack.close()  # drop the unfinished step
        self._hearing.close()
        if kind is not None:
            return
        self._uneven.check_all_end(self.name)
        if self._steps < self._schedule.needed:
            raise MeasurementError(
                f"'{self.name}' had {self._steps} steps, {self._schedule.needed} are needed",
                cause="another process ran out of inputs then"
                if self._uneven.ended_elsewhere
                else "some steps warm up; others are captured, timed and profiled in turn",
                hint="run the loop longer (30 steps are good), and call step() at the end of each",
            )
        self._check_captured()
        self.signature = coarsen(self._build(), self._level, cost_of)
        if self._output is not None and is_first():
            save_signature(self._output, self.signature)

    def _check_captured(self) -> None:
        """A kind of step that was never captured must not be missing without a word. Where such steps are RARE and do
        less than captured ones, as those in which a GradScaler finds an overflow, they count as the kind that is most
        like them, with a warning."""
        captured = {variant.kind for variant in self._join.variants}
        missing = {kind: n for kind, n in self._optimizer_steps.items() if kind not in captured}
        number = sum(missing.values())
        if not missing:
            return
        what = f"'{self.name}' had {plural(number, 'step')} of a kind that was never captured"
        calls = max(missing)
        if number > RARE * self._optimizer_steps.total() or calls > max(captured):
            raise MeasurementError(
                what,
                cause=f"{calls} optimizer calls in a step, which no captured step made",
                hint="profile such steps in a loop of their own"
                if self._schedule.is_over
                else "run the loop longer (30 steps are good, more if the optimizer steps seldom)",
            )
        nearest = {kind: min((abs(known - kind), known) for known in captured)[1] for kind in missing}
        for kind, steps in missing.items():
            del self._optimizer_steps[kind]
            self._optimizer_steps[nearest[kind]] += steps
        self._bare_optimized = [nearest.get(kind, kind) for kind in self._bare_optimized]
        warn(f"{what} ({calls} optimizer calls): they count as the others", stacklevel=4)

    def _begin(self) -> None:
        """Set the next step up, outside its timing."""
        self._running = self._schedule.next()
        self._capture: CaptureMode | None = None
        self._session: Any = None
        if self._running == "capture":
            handle = register_optimizer_step_pre_hook(self._see_optimizer)
            self._stack.callback(handle.remove)
            self._capture = self._stack.enter_context(capturing(self._kind, self._join.by))
        elif self._running == "profile":
            looks = self._join.looks_at_threads
            self._session = self._stack.enter_context(
                profiling(self._kind, record_shapes=True, all_threads=looks, ready=wait_for_others)
            )
        elif self._running != "none":
            wait_for_others()
        self._synchronize()
        self._began = time.perf_counter()

    def _mean_steps(self, variants: int) -> list[float]:
        """Samples of an average step, from bare steps that differ: those with as many optimizer calls count as often as
        they occur in the loop."""
        bare_s = self._latency_s["bare"]
        strata: dict[int, list[float]] = {}
        for time_s, optimized in zip(bare_s, self._bare_optimized, strict=True):
            strata.setdefault(optimized, []).append(time_s)
        known = {kind: self._optimizer_steps[kind] for kind in strata}
        fewest = min(len(times) for times in strata.values())
        if len(known) < len(self._optimizer_steps) or len(strata) == 1:  # a kind of step was never left alone
            return mean_samples(bare_s, max(1, len(bare_s) // variants))
        means = {kind: mean_samples(times, fewest) for kind, times in strata.items()}
        rows = min(len(samples) for samples in means.values())
        total = sum(known.values())
        return [sum(known[kind] * samples[row] for kind, samples in means.items()) / total for row in range(rows)]

    def _synchronize(self) -> None:
        if self._kind == "cuda":
            torch.cuda.synchronize(self._device)

    def _count_optimizer(self, *_: Any) -> None:
        self._optimized += 1

    def _see_optimizer(self, optimizer: Any, *_: Any) -> None:
        if self._optimizer is None:
            self._optimizer = name_of(optimizer)

    def _build(self) -> Signature:
        joined, variants = self._join.finish(), self._join.variants
        self.estimated_share = joined.estimated_share
        bare_s = self._latency_s["bare"]
        shares = _shares(variants, self._optimizer_steps)
        # The inputs of a bare step are not known: every variant gets all of them.
        samples_s = bare_s if len(variants) == 1 else self._mean_steps(len(variants))
        traces = traces_of(
            joined,
            variants,
            shares,
            device=self._kind,
            bare_s=samples_s,
            average_s=median(samples_s),
            warmup_s=self._latency_s["warmup"],
        )
        calls = [call for trace in traces for call in trace.calls]
        mode = mode_of(calls)
        signature = build_signature(
            traces,
            shares=shares,
            mode=mode,
            dtype=_dtype(calls) if self._model is None else dtype_of(self._model),
            memory=memory_record(self._model, [], None, device=self._kind),
            environment=self._environment,
            batch=self._batch,
            optimizer=self._optimizer if mode == "training" else None,
        )
        return with_collectives(signature, traces, shares)


def _shares(variants: list[Variant], steps: Counter[int]) -> list[float]:
    """How often each captured step occurs. Steps with as many optimizer calls share the part that all such steps of the
    loop have, captured or not: so the optimizer's share is exact."""
    captured: Counter[int] = Counter()
    for variant in variants:
        captured[variant.kind] += variant.times
    return [variant.times / captured[variant.kind] * steps[variant.kind] for variant in variants]


PRODUCTS = ("gemm", "convolution", "attention", "recurrent")
MIXED_SHARE = 0.05
"""A loop without a model is of mixed dtype if its products have several, each in at least this share of the calls."""


def _dtype(calls: list[OpCall]) -> str:
    """The floating dtype that the loop's products have, MIXED if several are common; else that of most results."""
    products = [call for call in calls if categorize(call.op, "forward") in PRODUCTS]
    counted = Counter(dtype_of_results([call], otherwise="") for call in products)
    common = [dtype for dtype, number in counted.items() if dtype and number >= MIXED_SHARE * counted.total()]
    return MIXED if len(common) > 1 else dtype_of_results(products or calls)
