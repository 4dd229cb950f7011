"""A workload's steps counted on fake tensors: nothing is computed, allocated or timed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parallel import DistributedDataParallel

from statsnet.profiling.capture import OpCall
from statsnet.profiling.communication_hooks import check_hooks_have_begun
from statsnet.profiling.draws import draw_again, drawn
from statsnet.profiling.joining import Variant
from statsnet.profiling.laps import MOST_STEPS, Lap, lap_of, look_for_laps, plain_values, steps_grow
from statsnet.profiling.memory import memory_record
from statsnet.profiling.representatives import Representative
from statsnet.profiling.step_notes import cut_note
from statsnet.profiling.step_trace import StepTrace
from statsnet.profiling.trace import captured
from statsnet.profiling.workload_trace import representative_inputs
from statsnet.signatures.model import InputSample
from statsnet.workloads import BuiltWorkload, Step
from statsnet.workloads.trees import data_bytes

Memory = dict[str, int | None]
Keys = tuple[Any, ...]
"""What tells whether two steps make the same calls."""


@dataclass(slots=True, kw_only=True)
class CountedSteps:
    """Traces without times of distinct steps, each with the number of steps it stands for; what the inputs stand for;
    the memory of the largest step; and sentences for the user."""

    inputs: InputSample | None
    traces: list[StepTrace] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    memory: Memory = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def count_steps(built: BuiltWorkload, step: Step, processes: int) -> CountedSteps:
    """Count a step of each representative input, or the average of those that differ, as a device's would be."""
    with _masks_kept() as kept:
        found = _count_steps(built, step, processes)
    found.notes += tuple(kept[:1])
    return found


def _count_steps(built: BuiltWorkload, step: Step, processes: int) -> CountedSteps:
    before, drawn_before = plain_values(step), drawn(step)
    first = _warm_up(step, processes)
    chosen, inputs = representative_inputs(built, step)
    by_chance = drawn(step) != drawn_before
    counts = step.renewal.changes_state or plain_values(step) != before
    found = CountedSteps(inputs=inputs)
    largest = largest_step(built)
    for one in chosen:
        lap = _lap(step, one.steps[0], by_chance, counts)
        calls, memory = _counted(built, step, one.steps[0])
        # Of several processes the first steps are others in any case.
        may_grow = lap is None and processes == 1 and 0 in one.steps
        if may_grow and len({first, _keys(calls), _keys(_captured(step, 0))}) > 2:
            lap = _lap(step, one.steps[0], by_chance, True)
            calls, memory = _counted(built, step, one.steps[0])
        _add(found, one, calls, lap)
        if largest in one.steps:
            found.memory = memory
    found.memory = found.memory or _counted(built, step, largest)[1]
    check_hooks_have_begun(built.whole.modules())
    return found


@contextmanager
def _masks_kept() -> Iterator[list[str]]:
    """A sentence for each mask that transformers keeps because it cannot see whether it masks anything."""
    notes: list[str] = []
    masking = sys.modules.get("transformers.masking_utils")
    is_tracing = getattr(masking, "is_tracing", None)
    if masking is None or is_tracing is None:
        yield notes
        return

    def watched(tensor: Any = None) -> Any:
        if isinstance(tensor, FakeTensor):
            notes.append(
                "transformers reads a mask's values to see whether it masks anything; there are none here, so that it "
                "computes with the mask. On a device, attention without padding leaves it out and takes up to half the "
                "FLOPs (causal)"
            )
        return is_tracing(tensor)

    with patch.object(masking, "is_tracing", watched):
        yield notes


def _warm_up(step: Step, processes: int) -> Keys:
    """Run what the first steps alone do, and give the calls of the first. It makes an optimizer's state and a model's
    tables, and of several processes layouts of sharded tensors; their second puts gradients into buckets by their
    order. A second one also tells whether steps go on to change what the model holds."""
    first = _keys(_captured(step, 0))
    if (processes > 1 and step.mode == "training") or step.renewal.has_changed():
        step(0)
    wrappers = [m for m in step.built.whole.modules() if isinstance(m, DistributedDataParallel)]
    if processes > 1 and any(wrapper.static_graph for wrapper in wrappers):
        step(0)  # its first has only looked at a graph that stays the same
    step.renewal.look()
    return first


def _keys(calls: list[OpCall]) -> Keys:
    return tuple(Variant.of(calls).keys)


def _lap(step: Step, index: int, by_chance: bool, counts: bool) -> Lap | None:
    """How successive steps differ, if something tells that they may."""
    run = partial(_captured, step, index)
    if by_chance:
        return lap_of(run, range(MOST_STEPS))
    if not counts:
        return None
    lap = look_for_laps(step, run, run)
    if lap.grows and lap_of(run, range(3)).grows:
        raise steps_grow()
    return lap


def _add(found: CountedSteps, one: Representative, calls: list[OpCall], lap: Lap | None) -> None:
    """Add the calls of a step, or those of a lap's steps."""
    if lap is None or not (lap.goes_on or (lap.varies and not lap.grows)):
        found.traces.append(StepTrace.counted(calls))
        found.shares.append(one.stands_for)
        found.notes = found.notes or tuple(cut_note(lap))
        return
    steps = lap.averaged()
    total = sum(each.times for each in steps)
    found.traces += [StepTrace.counted(each.calls) for each in steps]
    found.shares += [one.stands_for * each.times / total for each in steps]
    if len(steps) > 1:
        found.notes = (f"steps are not alike: the average of {total} is given, {len(steps)} of them distinct",)


def _counted(built: BuiltWorkload, step: Step, index: int) -> tuple[list[OpCall], Memory]:
    """The calls of a step, and its memory or that of the largest one of a lap."""
    calls: list[OpCall] = []

    def capture() -> None:
        for _ in range(step.renewal.lap):
            calls[:] = _captured(step, index)

    step.prepare(index)
    # One run for both: a step of long recurrent layers takes minutes on fake tensors.
    differentiated = step.differentiates
    memory = memory_record(built.whole, built.inputs_of(index), capture, device="meta", optimizer=step.optimizer)
    if step.differentiates and not differentiated:  # it was begun without gradients and ran again with them
        return _counted(built, step, index)
    return calls, memory


def _captured(step: Step, index: int, draw: int | None = None) -> list[OpCall]:
    if draw is not None:
        draw_again(draw)
    return captured(lambda: step(index), device="meta", phases=phases_of(step), has_run=False)


def largest_step(built: BuiltWorkload) -> int:
    """The number of the step whose inputs hold the most bytes: memory is that of the largest step."""
    return max((group[0] for group in built.input_groups()), key=lambda index: data_bytes(built.inputs_of(index)))


def phases_of(step: Step) -> Callable[[Callable[[str], None] | None], None]:
    """What sets the function that the step calls with each phase as it begins."""

    def install(callback: Callable[[str], None] | None) -> None:
        step.on_phase = callback

    return install
