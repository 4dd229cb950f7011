"""Tasks that time a step: a workload's, or a proxy's, by the same rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, Protocol

import msgspec
import torch

from statsnet.environment import describe, select
from statsnet.measure.idle_memory import IdleMemory, slow_memory
from statsnet.measure.network_file import load_network
from statsnet.measure.profiler_events import StepEvents, profiling
from statsnet.measure.quiet_machine import QuietMachine
from statsnet.measure.reference_network import ReferenceNetwork
from statsnet.measure.runtimes import exported_proxy, exported_workload
from statsnet.measure.task import Context, Task
from statsnet.measure.timing import measure
from statsnet.measure.turns import WARM_UP_S, PausingClock, measure_on_gpu, once_asleep, take_turns
from statsnet.progress import silent
from statsnet.signatures.timing import Timing
from statsnet.workloads import BuiltWorkload, Successive, build, make_step
from statsnet.workloads.dtypes import MIXED
from statsnet.workloads.settings import RUNTIME, convert_module, record, wrap_step

GENERATED = {"cpu": "cpp_fused", "cuda": "triton_"}
"""Part of the names that Inductor gives to its kernels."""


class StepOutcome(Protocol):
    """What is known of a step that was timed, profiled or replayed in one process."""

    @property
    def timing(self) -> Timing: ...

    @property
    def environment(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a step is timed in one process; None: the default of `timing.measure`."""

    min_time_s: float | None = None
    max_time_s: float | None = None

    def given(self) -> dict[str, Any]:
        """Those that are not None, as keyword arguments."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A workload and the sizes that it is built with. Without a dtype it keeps its own."""

    target: str
    mode: str
    preset: str | None = None
    batch: int | None = None
    dtype: str | None = None
    overrides: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    seed: int = 0
    optimizer: str | None = None

    def build(self, device: str) -> BuiltWorkload:
        dtype = None if self.dtype == MIXED else self.dtype  # a signature calls a model of several dtypes so
        sizes = {"preset": self.preset, "batch": self.batch, "dtype": dtype, "overrides": self.overrides}
        return build(self.target, mode=self.mode, device=device, seed=self.seed, **sizes)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedStep:
    """Times of one process. If it took turns with a reference network, `reference_latency_s` has that network's time
    for each window."""

    timing: Timing
    environment: dict[str, Any]
    reference_latency_s: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TimingTask(Task[TimedStep]):
    """Times a step. With `reference_network` (the folder of one), that network and the step take turns for
    `limits.max_time_s`."""

    device: str = "cpu"
    limits: Limits = Limits()
    reference_network: str | None = None

    def time(
        self, step: Callable[[], Any], context: Context, clock: Callable[[], float] = time.perf_counter
    ) -> TimedStep:
        """Time the step as its setting, its device and turns with others require, on a CPU by this clock."""
        device, setting, memory = self.device, context.setting, IdleMemory(self.device)
        select(device)
        if device.startswith("cuda"):
            torch.cuda.empty_cache()  # what building took for a moment, others need: several processes share the GPU
        wrapped = wrap_step(setting, step, device)
        compiled = "compile" in setting.in_process
        if compiled:
            wrapped()  # compiling is no part of a step
        reference_latency_s: list[float] = []
        if context.turns is not None:
            limit_s = WARM_UP_S if self.limits.max_time_s is None else self.limits.max_time_s
            say = once_asleep(context.say)
            timing = take_turns(wrapped, context.turns, say, device=device, limit_s=limit_s, clock=clock)
        elif self.reference_network is not None:
            assert self.limits.max_time_s is not None
            network, time_s = ReferenceNetwork(self.reference_network, device), self.limits.max_time_s
            reference_latency_s = network.latency_s
            looks = network.looks(time_s)
            timing = take_turns(wrapped, looks, silent, device=device, limit_s=time_s / 2, clock=clock)
        elif device.startswith("cuda"):
            timing = measure_on_gpu(wrapped, device, **self.limits.given())
        else:
            machine = QuietMachine(device)
            measured = machine.measure(partial(measure, wrapped, device=device, clock=clock, **self.limits.given()))
            measured["warnings"] += machine.warnings
            timing = msgspec.convert(measured, Timing)
        timing = replace(timing, warnings=(*timing.warnings, *slow_memory(memory.page_s())))
        if compiled:
            timing = replace(timing, generated_share=_generated_share(wrapped, device))
        environment = describe(device)
        environment["settings"] |= record(setting)
        return TimedStep(timing=timing, environment=environment, reference_latency_s=tuple(reference_latency_s))


@dataclass(frozen=True, kw_only=True)
class TimeWorkload(TimingTask):
    """Successive steps take the workload's inputs in turn."""

    model: Model

    def run(self, context: Context) -> TimedStep:
        made = self._made(context)
        if not isinstance(made, Successive):
            return self.time(made, context)
        clock = PausingClock()

        def run() -> Any:
            clock.pause(made.prepare)
            return made()

        return self.time(run, context, clock)

    def step(self, context: Context) -> Callable[[], Any]:
        """A step on the next input; making that ready is part of it."""
        made = self._made(context)
        return made.both if isinstance(made, Successive) else made

    def _made(self, context: Context) -> Callable[[], Any]:
        """Steps on the workload's inputs in turn (Successive), or the step of another runtime."""
        built = self.model.build(self.device)
        convert_module(context.setting, built.model)
        if runtime := context.setting.in_process.get(RUNTIME):
            return exported_workload(runtime, built)
        step = make_step(built, optimizer=self.model.optimizer)
        return Successive(step, count(), step.prepare)


@dataclass(frozen=True, kw_only=True)
class TimeNetwork(TimingTask):
    """A proxy's step. With `network_sha256`, it refuses any other source."""

    folder: str
    network_sha256: str | None = None

    def run(self, context: Context) -> TimedStep:
        return self.time(self.step(context), context)

    def step(self, context: Context) -> Callable[[], Any]:
        network = load_network(self.folder, sha256=self.network_sha256)
        proxy = convert_module(context.setting, network.build(self.device))
        if runtime := context.setting.in_process.get(RUNTIME):
            return exported_proxy(runtime, network, proxy, self.device)
        return network.make_step(proxy, self.device)


def _generated_share(step: Callable[[], Any], device: str) -> float:
    """Share of a step's time that it spends in kernels which Inductor generated."""
    kind = device.partition(":")[0]
    step()
    with profiling(kind) as session:
        step()
    events = StepEvents.take(session)
    ran: list[Any] = [*events.on_device] if kind == "cuda" else events.inside
    generated_s = sum(event.elapsed_s for event in ran if GENERATED[kind] in event.name)
    return min(generated_s / events.step.elapsed_s, 1.0)
