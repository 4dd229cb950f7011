"""Tasks that time a step: a workload's, or a proxy's, by the same rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import count
from statistics import median
from typing import Any, Protocol

import msgspec
import torch

from statsnet.environment import describe
from statsnet.measure.cache_flush import cache_flush
from statsnet.measure.gpu_power import ATTEMPTS, Meter, slowed_down
from statsnet.measure.network_file import load_network
from statsnet.measure.profiler_events import StepEvents, profiling
from statsnet.measure.quiet_machine import QuietMachine
from statsnet.measure.reference_network import ReferenceNetwork
from statsnet.measure.runtimes import exported_proxy, exported_workload
from statsnet.measure.task import Context, Event, Task
from statsnet.measure.timing import PRECISION, measure, precision, time_once, warm_up
from statsnet.progress import silent
from statsnet.signatures.timing import ProcessPower, Timing
from statsnet.workloads import BuiltWorkload, build
from statsnet.workloads.dtypes import MIXED
from statsnet.workloads.settings import RUNTIME, convert_module, record, wrap_step

WINDOW_S = 0.4
WARM_UP_S = 5.0
"""For processes that take turns: the length of a window (at least one step), and of the longest warm-up. Where the
warm-up is to be shorter than a window, so are windows."""

FLUSHED_RUNS = 30
"""At most this many steps are timed with the L2 cache flushed before each."""

ASLEEP, LOOK_S, SLEEPLESS_S = 0.1, 0.005, 0.5
"""Threads are asleep if they use less than ASLEEP of one core for LOOK_S. Those that never sleep, as with
OMP_WAIT_POLICY=active, are waited for no longer than SLEEPLESS_S: LLVM's and Intel's OpenMP spin for 0.2 s."""

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

    min_runs: int | None = None
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
        sizes = {"preset": self.preset, "batch": self.batch, "dtype": self._dtype, "overrides": self.overrides}
        return build(self.target, mode=self.mode, device=device, seed=self.seed, **sizes)  # type: ignore[arg-type]

    @property
    def _dtype(self) -> str | None:
        """What to cast to. `mixed`, as a signature calls a model of several dtypes, is how such a model is built."""
        return None if self.dtype == MIXED else self.dtype


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
        device, setting = self.device, context.setting
        if device.startswith("cuda"):
            torch.cuda.empty_cache()  # what building took for a moment, others need: several processes share the GPU
        wrapped = wrap_step(setting, step, device)
        compiled = "compile" in setting.in_process
        if compiled:
            wrapped()  # compiling is no part of a step
        reference_latency_s: list[float] = []
        if context.turns is not None:
            limit_s = WARM_UP_S if self.limits.max_time_s is None else self.limits.max_time_s
            say = _once_asleep(context.say)
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
            timing = _timing(measured)
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
        from statsnet.workloads import Successive

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
        from statsnet.workloads import Successive

        made = self._made(context)
        return made.both if isinstance(made, Successive) else made

    def _made(self, context: Context) -> Callable[[], Any]:
        """Steps on the workload's inputs in turn (Successive), or the step of another runtime."""
        from statsnet.workloads import Successive, make_step

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


class PausingClock:
    """Seconds as `time.perf_counter` counts them, without those spent in what `pause` runs. (Events on a GPU know of no
    pause: there, copies of inputs that steps change count as part of the step.)"""

    def __init__(self) -> None:
        self._paused_s = 0.0

    def __call__(self) -> float:
        return time.perf_counter() - self._paused_s

    def pause(self, function: Callable[[], object]) -> None:
        begin = time.perf_counter()
        function()
        self._paused_s += time.perf_counter() - begin


def _timing(measured: dict[str, Any]) -> Timing:
    """From `timing.measure`."""
    return msgspec.convert(measured, Timing)


def measure_on_gpu(step: Callable[[], object], device: str, **limits: Any) -> Timing:
    """As `timing.measure`, with the GPU's `power`, and with some more steps for which the L2 cache is overwritten
    first.

    A run in which the GPU was slowed down is repeated, up to ATTEMPTS runs in all. The result is not stable if the GPU
    was slowed down in the last run too, or held at its power cap.
    """
    attempts = 0
    while attempts < ATTEMPTS:
        attempts += 1
        with Meter(device) as meter:
            timing = _timing(measure(step, device=device, **limits))
        power = meter.record(len(timing.latency_s) + len(timing.warmup_latency_s))
        if not slowed_down(power):
            break
    flushed = _flushed(step, device, runs=min(len(timing.latency_s), FLUSHED_RUNS))
    return replace(_throttled(timing, power), attempts=attempts, flushed_latency_s=tuple(flushed))


def _flushed(step: Callable[[], object], device: str, runs: int) -> list[float]:
    flush = cache_flush(device)
    times = []
    for _ in range(runs):
        flush()
        times.append(time_once(step, device, time.perf_counter))
    return times


def take_turns(
    step: Callable[[], object],
    commands: Iterable[Any],
    say: Callable[[Event], None],
    *,
    device: str = "cpu",
    limit_s: float = WARM_UP_S,
    clock: Callable[[], float] = time.perf_counter,
) -> Timing:
    """Warm up for at most `limit_s`. Then time a window of steps, of at most `limit_s` as well, for each of `commands`,
    and say how long it took.

    On a GPU, `power` is that of all windows; if the GPU was slowed down in any of them, the result is not stable.
    """
    on_gpu = device.startswith("cuda")
    meter = Meter(device)
    timed = partial(time_once, step, device, clock)
    window_s = min(WINDOW_S, limit_s)
    warmup, settled = warm_up(timed, window_s=window_s / 2, limit_s=limit_s)
    usual_s = median(warmup[-3:])
    quiet_machine = QuietMachine(device)
    times: list[float] = []
    windows: list[float] = []

    def one_window() -> list[float]:
        if usual_s < window_s / 4:
            timed()  # refills the caches that the others have used in their turns
        with meter if on_gpu else nullcontext():
            end = time.perf_counter() + window_s
            window = [timed()]
            while time.perf_counter() < end:
                window.append(timed())
        return window

    say(Event(ready=True))
    for _ in commands:
        window = quiet_machine.measure(one_window)
        times += window
        windows.append(median(window))
        say(Event(window_s=windows[-1]))
    timing = Timing(
        latency_s=tuple(times),
        warmup_latency_s=tuple(warmup),
        stable=settled and precision(times) < PRECISION,
        warnings=(
            *([] if settled else ["the warm-up did not settle: raise --max-time"]),
            *quiet_machine.warnings,
        ),
        window_latency_s=tuple(windows),
    )
    return _throttled(timing, meter.record(max(len(times), 1))) if on_gpu else timing


def _once_asleep(say: Callable[[Event], None]) -> Callable[[Event], None]:
    """Says that the turn is over when it is."""

    def say_then(event: Event) -> None:
        fall_asleep()
        say(event)

    return say_then


def fall_asleep(
    *,
    used_s: Callable[[], float] = time.process_time,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Wait until this process's threads sleep, so that they do not take cores from the next process's window; says
    whether they do. Threads of OpenMP spin for a while after their last work, each runtime for as long as it likes.
    To forbid it (KMP_BLOCKTIME=0, OMP_WAIT_POLICY=passive) would change the step's own time."""
    end = clock() + SLEEPLESS_S
    while clock() < end:
        begin, used_before_s = clock(), used_s()
        sleep(LOOK_S)
        if used_s() - used_before_s < ASLEEP * (clock() - begin):
            return True
    return False


def _throttled(timing: Timing, power: ProcessPower) -> Timing:
    """The timing with the GPU's power, and with a warning if it was throttled."""
    if not power.throttled:
        return replace(timing, power=power)
    cause = f"the GPU was throttled ({', '.join(power.throttled)})"
    warning = f"{cause}: cool it, raise its power limit, or lock its clocks lower"
    return replace(timing, power=power, stable=False, warnings=(*timing.warnings, warning))


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
