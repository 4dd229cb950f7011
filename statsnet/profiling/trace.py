"""One step measured in three ways: bare time, captured calls, profiled times (step_trace.py puts them together)."""

from __future__ import annotations

import itertools
import math
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from statsnet.errors import ModelError, WorkloadError
from statsnet.measure.quiet_machine import QuietMachine
from statsnet.measure.timing import precision
from statsnet.profiling.alike import Alike
from statsnet.profiling.capture import CaptureMode, OpCall, capture_step
from statsnet.profiling.distributed import agreed, alone, wait_for_others
from statsnet.profiling.draws import draw_again
from statsnet.profiling.step_trace import StepTrace, joined_trace, own_s
from statsnet.profiling.timeline import Timeline, event_overhead_s, profile_step
from statsnet.profiling.unseen import WITHOUT_HIGHER_ORDER, check_collectives, look_for_unseen
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.statistics import FEWEST, agree, faster_half
from statsnet.workloads import Successive

StepFunction = Callable[[int], Any]
"""Called with the number of the step, so that inputs can rotate."""

SETTLING_TIME_S = 0.3
MOST_WARMUPS = 40
MOST_REPEATS = 60
PRECISE = 0.01
"""Steps are repeated no more once the medians of bare and of profiled ones are known to this share (half the width of
the 95 % interval), unless they are DISTURBED."""

DISTURBED, LONGER = 1.15, 2.0
"""If the faster half of the profiled steps, less what recording took, takes the first number of times as long as that
of the bare ones, others ran meanwhile: then steps are repeated for up to the second number of times as long."""

MUCH_RECORDED = 0.1
"""What recording takes is an estimate. Where it is this share of a profiled step, nothing tells what others took."""

MANY_CALLS = 10_000
"""Steps of this many calls need FEWEST repetitions only: each call makes several events, and reading 100,000 events
takes a second."""

RECOVERY_S = 0.03
LONG_STEP_S = 0.15
"""What a profiler session leaves behind takes RECOVERY_S, which is little in a longer step."""

LITTLE, ALIKE = 0.005, 0.02
"""If recording adds less than the first share to a long step, and the fastest bare and the fastest profiled one differ
by less than the second, further profiled steps are bare steps, too: no others run for that."""


def trace_step(
    step: StepFunction,
    *,
    device: str = "cpu",
    warmup: int = 3,
    repeats: int,
    min_time_s: float = 0.0,
    phases: Callable[[Callable[[str], None] | None], None] | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    inputs: Sequence[int] = (0,),
    while_capturing: Callable[[], AbstractContextManager[Any]] = nullcontext,
    between: Callable[[], object] = lambda: None,
    prepare: Callable[[int], object] = lambda _: None,
    may_vary: bool = False,
    first_session: Callable[[], object] | None = None,
) -> StepTrace:
    """Warm up, capture one step, then bare and profiled steps in turn.

    At least `repeats` of each, or FEWEST that agree, and more until they have run for `min_time_s` together, or the
    times of both are known to PRECISE; for LONGER if the profiled ones are DISTURBED. Long steps on a CPU to which
    recording adds little are both at once. Steps take the input numbers in `inputs` in turn. These inputs must have the
    same shapes, so that the calls correspond one by one, but may hold different indices, so that an embedding's rows
    are not still cached from the step before; `prepare` makes one ready, outside of the steps' times. The captured step
    runs inside `while_capturing()`, which may mark segments without disturbing the timed steps. `between` is called
    before each pair of a bare and a profiled step. `first_session` runs a step for another purpose: on a CPU, under the
    profiler, whose first session allocates the memory that later ones reuse, and tells no times.

    If steps `may_vary`, as a user's may, raises StepsVary where they do, and MeasurementError where a part of a step
    cannot be seen (unseen.py); of several processes, for collectives alone.
    """
    report = on_progress or (lambda _stage, _share: None)
    may_vary = may_vary and alone()
    turn = Successive(step, itertools.cycle(inputs), prepare)
    run = timed(turn, device)
    warmup_s = _warm_up(run, warmup)
    report("capturing operators", 0.2)

    def capture(draw: int, by: type[CaptureMode] = CaptureMode) -> list[OpCall]:
        turn.prepare()
        if may_vary:
            draw_again(draw)
        with while_capturing():
            return captured(turn, device=device, phases=phases, by=by)

    alike = Alike(capture, turn, device, warmup_s[-1]) if may_vary else None
    calls = alike.calls if alike else capture(0)

    def profile(overhead_s: float) -> Timeline:
        turn.prepare()
        if alike:
            return alike.profile(overhead_s)
        return profile_step(turn, calls, device=device, event_overhead_s=overhead_s)

    if first_session:
        first_session()
    if alike:
        alike.look()
        calls = alike.calls
    elif alone():
        if not first_session or device == "cuda":
            profile(0.0)
    else:
        turn.prepare()
        check_collectives(len(look_for_unseen(turn, calls, device=device)[1].works), calls)
    overhead_s = event_overhead_s(record_shapes=alike is not None and alike.shows_in_profiles)
    pair = _Pair(
        run=run,
        profile=profile,
        overhead_s=overhead_s,
        on_cpu=device == "cpu",
        is_long=agreed(warmup_s[-1] > LONG_STEP_S),
    )
    fewest = min(repeats, FEWEST) if len(calls) > MANY_CALLS else repeats
    bare, timelines = _in_pairs(pair, device, fewest, min_time_s, between, report)
    if alike:
        alike.look_again(timelines)
    return joined_trace(device, calls, warmup_s, bare, timelines, overhead_s)


@dataclass(slots=True, kw_only=True)
class _Pair:
    """A bare step (`run` gives its seconds) and a profiled one, each of whose events takes `overhead_s` to record. If
    long ones `are_alike`, further profiled steps are both."""

    run: Callable[[], float]
    profile: Callable[[float], Timeline]
    overhead_s: float
    on_cpu: bool
    is_long: bool
    are_alike: bool = False
    fastest_bare_s: float = math.inf
    fastest_profiled_s: float = math.inf

    def measure(self) -> tuple[float, Timeline]:
        if self.are_alike:
            line = self.profile(self.overhead_s)
            return self.own_step_s(line), line
        if not self.is_long:
            _recover(self.run)
        bare_s, line = self.run(), self.profile(self.overhead_s)
        if self.is_long and self.on_cpu and alone():
            own_step_s = self.own_step_s(line)
            self.fastest_bare_s = min(self.fastest_bare_s, bare_s)
            self.fastest_profiled_s = min(self.fastest_profiled_s, own_step_s)
            is_near = abs(self.fastest_profiled_s - self.fastest_bare_s) < ALIKE * self.fastest_bare_s
            self.are_alike = is_near and line.step_s - own_step_s < LITTLE * line.step_s
        return bare_s, line

    def own_step_s(self, line: Timeline) -> float:
        return own_s(line, "cpu" if self.on_cpu else "cuda", self.overhead_s)


def _in_pairs(
    pair: _Pair,
    device: str,
    fewest: int,
    min_time_s: float,
    between: Callable[[], object],
    report: Callable[[str, float], None],
) -> tuple[list[float], list[Timeline]]:
    """Seconds of bare steps, and the profiled steps that followed them, until there are enough (see trace_step)."""
    quiet_machine = QuietMachine(device) if alone() else None
    bare: list[float] = []
    profiled: list[float] = []
    timelines: list[Timeline] = []
    begin = time.perf_counter()

    def are_enough() -> bool:
        if len(bare) < fewest and not (agree(bare) and agree(profiled)):
            return False
        time_s = time.perf_counter() - begin
        if time_s >= LONGER * min_time_s or len(bare) >= MOST_REPEATS:
            return True
        if pair.on_cpu and _are_disturbed(bare, profiled, timelines):
            return False
        return time_s >= min_time_s or max(precision(bare), precision(profiled)) <= PRECISE

    while agreed(not are_enough()):
        between()
        bare_s, timeline = quiet_machine.measure(pair.measure) if quiet_machine else pair.measure()
        bare.append(bare_s)
        timelines.append(timeline)
        profiled.append(pair.own_step_s(timeline))
        done = len(bare) / fewest if fewest else 1.0
        if min_time_s > 0:
            done = min(done, (time.perf_counter() - begin) / min_time_s)
        report("measuring", 0.3 + 0.7 * min(done, 1.0))
    return bare, timelines


def _are_disturbed(bare: list[float], profiled: list[float], timelines: list[Timeline]) -> bool:
    """Whether others ran while steps were profiled, by the seconds of bare and of profiled steps, these without what
    recording took."""
    recorded = 1 - fmean(profiled) / fmean(line.step_s for line in timelines)
    slower = fmean(faster_half(profiled)) / fmean(faster_half(bare))
    return recorded < MUCH_RECORDED and slower > DISTURBED


def captured(
    step: Callable[[], Any],
    *,
    device: str,
    phases: Callable[[Callable[[str], None] | None], None] | None,
    by: type[CaptureMode] = CaptureMode,
    has_run: bool = True,
) -> list[OpCall]:
    """The calls of a step, with those that move no data marked. Raises MeasurementError if it fails, but `has_run`."""
    try:
        calls = capture_step(step, device=device, phases=phases, by=by)
    except WorkloadError as error:
        if not has_run or error.__cause__ is None:  # without a cause it is a sentence of ours
            raise
        raise _fails_when_watched(error, error.__cause__) from error
    for call in calls:
        call.metadata = is_metadata(call.op)
    return calls


def _fails_when_watched(error: WorkloadError, origin: BaseException) -> ModelError:
    frames = traceback.extract_tb(origin.__traceback__)
    is_higher_order = any("_higher_order_ops" in frame.filename for frame in frames)
    part = "a higher-order operator (torch.cond, while_loop, scan) or its derivative" if is_higher_order else "a part"
    return ModelError(
        "the step runs by itself, but not while its operators are captured",
        cause=f"{part} does not work under a torch dispatch mode: {error.cause or error.message}",
        hint=WITHOUT_HIGHER_ORDER if is_higher_order else "profile the model without this part",
    )


def _warm_up(run: Callable[[], float], fewest: int) -> list[float]:
    """Steps until the machine has settled; their times in seconds."""
    times_s: list[float] = []
    while agreed(len(times_s) < fewest or (sum(times_s) < SETTLING_TIME_S and len(times_s) < MOST_WARMUPS)):
        times_s.append(run())
    return times_s


def _recover(run: Callable[[], float]) -> None:
    """Undo the effects of a profiler session before the next bare step. That step faults in the memory that the
    events have used, and the session's single-threaded work may have moved two compute threads to one core.
    """
    end = time.perf_counter() + RECOVERY_S
    run()
    while agreed(time.perf_counter() < end):
        run()


def timed(step: Callable[[], Any] | Successive, device: str) -> Callable[[], float]:
    """A function that runs the step and returns its seconds, including everything that it launched."""

    def run() -> float:
        if isinstance(step, Successive):
            step.prepare()
        wait_for_others()
        if device == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begin

    return run
