"""A workload's steps measured: on representative inputs, and on as many draws as steps that vary need."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import torch

from statsnet.errors import MeasurementError, StatsNetError
from statsnet.measure.task import Context, Progress
from statsnet.profiling.alike import StepsVary
from statsnet.profiling.capture import CaptureMode, OpCall, capture_step
from statsnet.profiling.communication_hooks import check_hooks_have_begun
from statsnet.profiling.compiled_step import trace_compiled_step
from statsnet.profiling.distributed import alone, first_steps, from_all
from statsnet.profiling.draws import prepared
from statsnet.profiling.laps import LOOK_SHARE, Lap, has_own_optimizer, lap_of, look_for_laps, plain_values
from statsnet.profiling.representatives import FEWEST, Representative, Work, choose
from statsnet.profiling.step_notes import cut_note
from statsnet.profiling.step_trace import StepTrace
from statsnet.profiling.trace import captured, timed, trace_step
from statsnet.profiling.varying import VaryingSteps, trace_varying
from statsnet.signatures.measurement import Variation
from statsnet.signatures.model import InputSample
from statsnet.workloads import BuiltWorkload, Step, Successive
from statsnet.workloads.settings import Setting, autocast, convert_module, wrap_step
from statsnet.workloads.trees import data_bytes

IN_ONE_PIECE = frozenset({"compile", "graphs"})
"""Settings under which a step runs in one piece (see compiled_step.py)."""


WORTH_A_LOOK = 10
"""So many steps are worth looking at, at least."""


def in_one_piece(setting: Setting) -> bool:
    """Whether the step has no parts that could be told apart while it runs."""
    return bool(IN_ONE_PIECE & setting.in_process.keys())


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadTrace:
    """Traces of distinct steps, each with its share of the workload's steps; what the inputs stand for; how much steps
    on equal inputs vary, if they do; a function that runs the workload's next step; and sentences for the user."""

    traces: list[StepTrace]
    shares: list[float]
    inputs: InputSample | None
    variation: Variation | None
    run_next: Callable[[], Any]
    notes: tuple[str, ...] = ()


def representative_inputs(built: BuiltWorkload, step: Step) -> tuple[list[Representative], InputSample | None]:
    """The inputs that stand for all of a workload's. Counting them runs each of their steps once, if there are many.

    Raises MeasurementError where processes that run the steps together would run others than each other.
    """

    def size(index: int) -> int:
        return data_bytes(built.inputs_of(index))

    def count(index: int) -> Work:
        step.prepare(index)
        return Work.of(capture_step(lambda: step(index), device="meta"))  # no names of kernels are wanted

    groups = built.input_groups()
    _check_alike(len(groups), "have {} different sets of input shapes")
    if len(groups) > FEWEST:  # the steps of some are counted, and others are chosen
        _check_alike([len(group) for group in groups], "have so many steps with each set of input shapes: {}")
    chosen, inputs = choose(groups, size, count)
    _check_alike(len(chosen), "need {} inputs to stand for all")
    return chosen, inputs


def _check_alike(own: Any, what: str) -> None:
    """A process that ran a step more than the others would wait for them until the group's time is over."""
    values = from_all(own)
    if any(value != own for value in values):
        told = " and ".join(sorted({str(value) for value in values}))
        raise MeasurementError(
            "the processes do not run the same steps",
            cause=f"they {what.format(told)}",
            hint="give each process as many inputs, with the same shapes in the same order: pad them, for instance",
        )


class _Nothing(torch.nn.Module):
    def forward(self, *_: Any, **__: Any) -> None:
        return None


def own_call_s(step: Step) -> float:
    """Seconds that a step takes without its model: the call itself, and torch's switches around it."""
    empty = Step(replace(step.built, model=_Nothing()), "inference")
    run = timed(Successive(empty, itertools.repeat(0), empty.prepare), "cpu")
    return median(run() for _ in range(200))


def trace_workload(
    built: BuiltWorkload,
    step: Step,
    *,
    kind: str,
    context: Context,
    repeats: int,
    min_time_s: float,
    between: Callable[[], object],
    may_vary: bool,
) -> WorkloadTrace:
    """Trace every representative input, each for its part of the time, under the context's setting. Unless steps
    `may_vary`, it is known that they are alike, and nobody looks.

    Raises MeasurementError where a part of the step cannot be seen, or its hooks of communication begin later.
    """
    chosen, inputs = representative_inputs(built, step)
    tracer = _Tracer(built, step, kind, context, between)
    whole = in_one_piece(context.setting)
    repeats, min_time_s = max(3 if len(chosen) > 1 else 2, repeats // len(chosen)), min_time_s / len(chosen)
    parts: list[tuple[StepTrace | VaryingSteps, int]] = []
    for number, one in enumerate(chosen):
        warmup = first_steps() if number == 0 and may_vary else 1
        if whole:
            parts.append((tracer.alike(one.steps, warmup, 2, 0.0), one.stands_for))
        else:
            trace = tracer.trace if may_vary else tracer.alike
            parts.append((trace(one.steps, warmup, repeats, min_time_s), one.stands_for))
    run_next = Successive(tracer.run, itertools.cycle(range(sum(map(len, built.input_groups())))), step.prepare).both
    if whole:
        traces, run_next = tracer.in_one_piece(
            [(one, trace) for one, (trace, _) in zip(chosen, parts, strict=True)], repeats, min_time_s
        )
        parts = [(trace, count) for trace, (_, count) in zip(traces, parts, strict=True)]
    return _together(parts, inputs, run_next, tuple(dict.fromkeys(tracer.notes)))


def _together(
    parts: list[tuple[StepTrace | VaryingSteps, int]],
    inputs: InputSample | None,
    run_next: Callable[[], Any],
    notes: tuple[str, ...],
) -> WorkloadTrace:
    traces: list[StepTrace] = []
    shares: list[float] = []
    varying = [(part.variation, count) for part, count in parts if isinstance(part, VaryingSteps)]
    for part, count in parts:
        if isinstance(part, StepTrace):
            traces.append(part)
            shares.append(count)
        else:
            traces += part.traces
            shares += [count * times / sum(part.times) for times in part.times]
    total = sum(shares)
    return WorkloadTrace(
        traces=traces,
        shares=[share / total for share in shares],
        inputs=inputs,
        variation=_largest([variation for variation, _ in varying]),
        run_next=run_next,
        notes=notes,
    )


def _largest(variations: list[Variation]) -> Variation | None:
    """For several inputs whose steps vary: all their steps, and the largest deviations and errors."""
    if not variations:
        return None
    return Variation(
        steps=sum(v.steps for v in variations),
        distinct=sum(v.distinct for v in variations),
        work_deviation=max(v.work_deviation for v in variations),
        work_error=max(v.work_error for v in variations),
        time_deviation=max(v.time_deviation for v in variations),
        time_error=max(v.time_error for v in variations),
    )


class _Tracer:
    """Traces steps of one workload on inputs of equal shapes."""

    def __init__(
        self, built: BuiltWorkload, step: Step, kind: str, context: Context, between: Callable[[], object]
    ) -> None:
        self._built, self._step, self._kind, self._context, self._between = built, step, kind, context, between
        self.notes: list[str] = []

    @property
    def _setting(self) -> Setting:
        return self._context.setting

    def run(self, index: int) -> Any:
        with autocast(self._setting, self._built.device):
            return self._step(index)

    def trace(self, steps: tuple[int, ...], warmup: int, repeats: int, min_time_s: float) -> StepTrace | VaryingSteps:
        renewal = self._step.renewal
        try:
            return self._trace(steps, warmup, repeats, min_time_s)
        except StatsNetError:
            if renewal.puts_counts_back or not renewal.counts_steps or not alone():  # the others would not begin anew
                raise
        renewal.puts_counts_back = True  # it runs so many times only, such as until a cache is full
        return self._trace(steps, warmup, repeats, min_time_s)

    def _trace(self, steps: tuple[int, ...], warmup: int, repeats: int, min_time_s: float) -> StepTrace | VaryingSteps:
        before = plain_values(self._step)
        try:
            trace = self.alike(steps, warmup, repeats, min_time_s, may_vary=True)
            lap = self._lap(steps, before, LOOK_SHARE * min_time_s, trace.latency_s)
            if lap is None or not (lap.goes_on or lap.grows):
                return trace
        except StepsVary:
            lap = self._lap(steps, before, LOOK_SHARE * min_time_s)
        if lap is not None and (lap.settles or lap.grows):  # the state is another one now
            with suppress(StepsVary):
                return self.alike(steps, warmup, repeats, min_time_s, may_vary=True)
        return trace_varying(
            self.run,
            device=self._kind,
            prepare=self._step.prepare,
            phases=self._phases,
            inputs=steps,
            between=self._between,
            report=self._report,
            min_time_s=min_time_s,
            known=lap if lap is not None and lap.goes_on else None,
            again=partial(self._lap_again, steps, lap) if lap is not None and lap.goes_on else None,
        )

    def _lap_again(self, steps: tuple[int, ...], lap: Lap, by: type[CaptureMode]) -> Lap:
        """A lap's steps, from its begin, as another capture sees them."""
        self._step.renewal.start_again()
        turn = Successive(self.run, itertools.cycle(steps), self._step.prepare)
        again = lap_of(self._captured(turn, by), range(len(lap.order)), math.inf)
        self._step.renewal.start_again()
        return again if again.period == lap.period else lap

    def _lap(self, steps: tuple[int, ...], before: list[Any], look_s: float, step_s: float = 0.0) -> Lap | None:
        """How steps differ from one another, if something tells that the model may count them, or `look_s` are enough
        to see many steps of `step_s`. Not on a GPU: a state that runs past its end would end the process there."""
        counts = self._step.renewal.changes_state or has_own_optimizer(self._step)
        counts = counts or plain_values(self._step) != before
        if not alone() or self._kind != "cpu" or not (counts or look_s > WORTH_A_LOOK * step_s):
            return None
        turn = Successive(self.run, itertools.cycle(steps), self._step.prepare)
        first = Successive(self.run, itertools.repeat(steps[0]), self._step.prepare)
        lap = look_for_laps(self._step, self._captured(turn), self._captured(first), None if counts else look_s)
        self.notes += cut_note(lap) if counts else ()
        return lap

    def _captured(self, turn: Successive, by: type[CaptureMode] = CaptureMode) -> Callable[[int], list[OpCall]]:
        return lambda draw: captured(prepared(turn, draw), device=self._kind, phases=self._phases, by=by)

    def alike(
        self, steps: tuple[int, ...], warmup: int, repeats: int, min_time_s: float, may_vary: bool = False
    ) -> StepTrace:
        return trace_step(
            self.run,
            device=self._kind,
            warmup=warmup,
            phases=self._phases,
            on_progress=self._report,
            inputs=steps,
            repeats=repeats,
            min_time_s=min_time_s,
            while_capturing=self._while_capturing,
            between=self._between,
            prepare=self._step.prepare,
            may_vary=may_vary,
        )

    def _while_capturing(self) -> AbstractContextManager[None]:
        check_hooks_have_begun(self._built.whole.modules())  # after the warm-up: later there may be steps of both kinds
        return nullcontext()

    def in_one_piece(
        self, alone: list[tuple[Representative, Any]], repeats: int, min_time_s: float
    ) -> tuple[list[StepTrace], Callable[[], Any]]:
        """The traces of steps that run as a whole, from those of the same steps run operator by operator."""
        self._step.on_phase = None
        convert_module(self._setting, self._built.model)
        pieces = [self._piece(one) for one, _ in alone]
        traces = [
            trace_compiled_step(piece, trace, repeats=repeats, min_time_s=min_time_s)
            for piece, (_, trace) in zip(pieces, alone, strict=True)
        ]
        turns = itertools.cycle(pieces)
        return traces, lambda: next(turns).both()

    def _piece(self, one: Representative) -> Successive:
        turn = Successive(self._step, itertools.cycle(one.steps), self._step.prepare)
        whole = wrap_step(self._setting, turn, self._built.device)
        return Successive(lambda _: whole(), itertools.count(), lambda _: turn.prepare())

    def _report(self, stage: str, done: float) -> None:
        self._context.report(Progress(stage=stage, done=done))

    def _phases(self, callback: Callable[[str], None] | None) -> None:
        self._step.on_phase = callback
