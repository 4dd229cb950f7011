"""How a step is timed on a GPU, and in turns with others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import msgspec

from statsnet.measure.cache_flush import cache_flush
from statsnet.measure.gpu_power import ATTEMPTS, Meter, slowed_down
from statsnet.measure.quiet_machine import QuietMachine
from statsnet.measure.task import Event
from statsnet.measure.timing import PRECISION, measure, precision, time_once, warm_up
from statsnet.signatures.timing import ProcessPower, Timing

WINDOW_S = 0.4
WARM_UP_S = 5.0
"""For processes that take turns: the length of a window (at least one step), and of the longest warm-up. Where the
warm-up is to be shorter than a window, so are windows."""

FLUSHED_RUNS = 30
"""At most this many steps are timed with the L2 cache flushed before each."""

ASLEEP, LOOK_S, SLEEPLESS_S = 0.1, 0.005, 0.5
"""Threads are asleep if they use less than ASLEEP of one core for LOOK_S. Those that never sleep, as with
OMP_WAIT_POLICY=active, are waited for no longer than SLEEPLESS_S: LLVM's and Intel's OpenMP spin for 0.2 s."""


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
            timing = msgspec.convert(measure(step, device=device, **limits), Timing)
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


def once_asleep(say: Callable[[Event], None]) -> Callable[[Event], None]:
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
