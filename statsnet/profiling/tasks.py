"""The task of profiling: a workload's signature."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from statsnet import environment
from statsnet.errors import MeasurementError, UsageError
from statsnet.measure.gpu_power import drawn_by
from statsnet.measure.ncu import run_in_range
from statsnet.measure.rank_ends import GROUP_TIMEOUT_S
from statsnet.measure.reference_network import ReferenceNetwork
from statsnet.measure.task import Context, CountableTask, Progress
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.autocast_shares import with_autocast_shares, with_known_shares
from statsnet.profiling.build_signature import build_signature
from statsnet.profiling.collective_record import with_collectives
from statsnet.profiling.counting import count_steps, largest_step, phases_of
from statsnet.profiling.distributed import alone, is_first, joined, lacks, number_of_processes
from statsnet.profiling.fake_processes import fake_processes
from statsnet.profiling.gpu_activity import Launch, launches_of
from statsnet.profiling.memory import memory_record
from statsnet.profiling.step_notes import SHORT_STEP_S, denormals_note, pauses_note, steps_notes
from statsnet.profiling.step_trace import StepTrace
from statsnet.profiling.workload_trace import (
    IN_ONE_PIECE,
    in_one_piece,
    own_call_s,
    representative_inputs,
    trace_workload,
)
from statsnet.signatures.gpu import POWER_FIELDS, Power
from statsnet.signatures.measurement import ReferenceTime
from statsnet.signatures.model import Signature
from statsnet.signatures.timing import Timing
from statsnet.units import format_duration
from statsnet.workloads import BuiltWorkload, Step, make_step
from statsnet.workloads.settings import Setting, autocast, convert_module, record


class WithSignature:
    """The StepOutcome of a signature's first measurement."""

    __slots__ = ()
    signature: Signature

    @property
    def timing(self) -> Timing:
        return self.signature.measurements[0].timing

    @property
    def environment(self) -> Mapping[str, Any]:
        return self.signature.measurements[0].environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(WithSignature):
    """A signature, and what is known beside it. `launches` are a GPU's kernels, in their order.
    `reference_latency_s` is the reference network's undisturbed step meanwhile. `notes` are sentences for the user."""

    signature: Signature
    notes: tuple[str, ...] = ()
    launches: tuple[Launch, ...] | None = None
    reference_latency_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class ProfileWorkload(CountableTask[Profile]):
    """Measures a workload's step; if a reference network's folder is given, beside that network. On "meta" the step is
    only counted, on fake tensors: nothing is allocated or timed, and the step may be of one of many `processes`, none
    of which is there. See trace_step for `repeats` and `min_time_s`. Of several processes that are there, each waits
    for the others no longer than `group_timeout_s`. What a signature of the same work tells for all devices (`known`)
    is not looked at again: that steps are alike, their memory, and what works in lower precision under autocast."""

    model: Model
    device: str = "cpu"
    processes: int = 1
    min_time_s: float = 2.0
    repeats: int = 5
    group_timeout_s: float = GROUP_TIMEOUT_S
    reference_network: str | None = None
    known: Signature | None = None

    def run(self, context: Context) -> Profile:
        counted = self.processes if self.device == "meta" else 1
        with joined(self.device, self.group_timeout_s) as device, fake_processes(counted):
            return replace(self, device=device)._profile(context)

    def _profile(self, context: Context) -> Profile:
        context.report(Progress(stage="building the model"))
        built, step = self._built(context.setting)
        profile = self._count(built, step) if built.device == "meta" else self._measure(built, step, context)
        return replace(profile, notes=(*([built.cast] if built.cast else []), *lacks(), *profile.notes))

    def launch(self, context: Context) -> None:
        setting = context.setting
        built, step = self._built(setting)
        if "compile" in setting.in_process:
            convert_module(setting, built.model)
        chosen, _ = representative_inputs(built, step)

        def steps() -> None:
            for one in chosen:
                step(one.steps[0])

        with autocast(setting, built.device):
            run_in_range(steps, built.device)

    def _built(self, setting: Setting) -> tuple[BuiltWorkload, Step]:
        built = self.model.build(self.device)
        operator_by_operator = {k: v for k, v in setting.in_process.items() if k not in IN_ONE_PIECE}
        convert_module(replace(setting, in_process=operator_by_operator), built.model)
        return built, make_step(built, optimizer=self.model.optimizer)

    def _count(self, built: BuiltWorkload, step: Step) -> Profile:
        counted = count_steps(built, step, self.processes)
        signature = build_signature(
            counted.traces,
            memory=counted.memory,
            environment=None,
            shares=counted.shares,
            inputs=counted.inputs,
            **self._identity(built, step, is_changed=False),
        )
        return Profile(signature=signature, notes=counted.notes)

    def _measure(self, built: BuiltWorkload, step: Step, context: Context) -> Profile:
        setting = context.setting
        _check_together(setting)
        kind = environment.select(built.device)
        folder = self.reference_network
        reference = ReferenceNetwork(folder, kind) if folder and is_first() else None
        traced = trace_workload(
            built,
            step,
            kind=kind,
            context=context,
            repeats=self.repeats,
            min_time_s=self.min_time_s,
            between=reference.look_now_and_then if reference else lambda: None,
            may_vary=self.known is None,
        )
        if reference:
            reference.look()
        if kind == "cuda" and not any(t.on_device or t.kernels_launched for t in traced.traces):
            raise MeasurementError(
                "torch's profiler saw no kernel on the GPU",
                cause="the model computes on the CPU, or another profiler (Nsight, DCGM) holds the GPU's",
                hint="stop other profilers; statsnet doctor says what the machine lacks",
            )
        described = environment.describe(built.device)
        described["settings"] |= record(setting)
        signature = build_signature(
            traced.traces,
            shares=traced.shares,
            memory=_memory(built, step, kind) if self.known is None else asdict(self.known.memory),
            environment=described,
            power=_power(traced.run_next, built.device) if kind == "cuda" else None,
            inputs=traced.inputs,
            variation=traced.variation,
            **self._identity(built, step, is_changed=bool(setting.in_process) or not alone()),
        )
        signature = with_collectives(signature, traced.traces, traced.shares)
        latency_s = None
        if reference:  # of steps that vary, all count
            latency_s = median(reference.latency_s) if traced.variation else reference.undisturbed_s
        if reference and latency_s:
            (measurement,) = signature.measurements
            beside = ReferenceTime(network=reference.work, latency_s=latency_s)
            signature = replace(signature, measurements=(replace(measurement, reference=beside),))
        counted = kind == "cuda" and traced.variation is None
        notes = (*_notes(step, signature, traced.traces), *traced.notes)
        if alone() and not setting.in_process:  # at last: a model that fails leaves its state behind
            known = None if self.known is None else with_known_shares(signature, self.known)
            signature = known or with_autocast_shares(signature, step, kind, phases_of(step))
        return Profile(
            signature=signature,
            launches=tuple(launches_of(traced.traces, traced.shares)) if counted else None,
            reference_latency_s=latency_s,
            notes=notes,
        )

    def _identity(self, built: BuiltWorkload, step: Step, *, is_changed: bool) -> dict[str, Any]:
        """A shipped workload whose sizes were set by hand counts as the user's own: its name means another model. So
        does one whose step ran under a setting, or in several processes (`is_changed`): others time it without."""
        shipped = built.workload if built.workload and built.workload.builtin else None
        shipped = None if self.model.overrides or is_changed else shipped
        return {
            "mode": self.model.mode,
            "dtype": built.dtype,
            "batch": built.batch or None,  # none of an empty input
            "optimizer": step.optimizer_name if self.model.mode == "training" else None,
            "processes": None if alone() else number_of_processes(),
            "workload": {"domain": shipped.domain, "name": shipped.name, "preset": built.preset or ""}
            if shipped
            else None,
        }


def _check_together(setting: Setting) -> None:
    if not alone() and in_one_piece(setting):
        raise UsageError(
            "a step in one piece was asked for of several processes",
            cause="what they do together is timed operator by operator",
            hint="leave out --setting, or profile one process",
        )


def _memory(built: BuiltWorkload, step: Step, kind: str) -> dict[str, int | None]:
    largest = largest_step(built)
    step.prepare(largest)

    def lap() -> None:
        for _ in range(step.renewal.lap):
            step(largest)

    return memory_record(built.whole, built.inputs_of(largest), lap, device=kind, optimizer=step.optimizer)


def _power(step: Callable[[], Any], device: str) -> Power:
    """Not measured for several processes: they would have to agree on each step."""
    return drawn_by(step, device) if alone() else Power(missing=dict.fromkeys(POWER_FIELDS, "off"))


def _notes(step: Step, signature: Signature, traces: Sequence[StepTrace]) -> Iterator[str]:
    """What a user should know of the steps that were profiled."""
    if step.renewal.changes_inputs:
        yield "the model changes its inputs: each step got them as they were built"
    if step.renewal.changes_state and step.renewal.lap > 1:
        yield (
            "what a step does depends on the state that steps before it left: each went on from the one before, "
            f"{step.renewal.lap} in a row"
        )
    elif step.renewal.is_settled:
        yield ("the model does something else in its first steps: each step began with the state that the first left")
    elif step.renewal.changes_state or step.renewal.puts_counts_back:
        yield "the model changes its own state: each step began with the state that it was built with"
    if step.optimizer is not None and step.optimizer.needs_closure:
        yield "the optimizer evaluates the loss itself: each step began with the parameters as built"
    yield from steps_notes(signature)
    yield from pauses_note(traces)
    yield from denormals_note(traces)
    latency_s = signature.measurements[0].latency_s
    if latency_s < SHORT_STEP_S:
        yield (
            f"of a step's {format_duration(latency_s)}, {format_duration(own_call_s(step))} are StatsNet's own call of "
            "the model: put more into a step, such as a larger batch, where that matters"
        )
