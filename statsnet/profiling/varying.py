"""Steps that are not alike: random layers, routing that depends on data, shapes that change.

No single step stands for them, so several are averaged. Each round captures, times and profiles a step at one draw of
random numbers, so that operators and times are of the same steps; `joining` brings together what differs all the same.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from statistics import fmean, median, pstdev, stdev
from typing import Any

from statsnet.errors import ModelError
from statsnet.measure.profiler_events import StepEvents, profiling
from statsnet.measure.quiet_machine import QuietMachine
from statsnet.profiling.capture import CaptureMode, OpCall
from statsnet.profiling.collective_times import in_bare_step
from statsnet.profiling.draws import prepared
from statsnet.profiling.joining import JoinedSteps, StepJoin, Variant
from statsnet.profiling.laps import Lap, steps_grow
from statsnet.profiling.representatives import Work
from statsnet.profiling.step_trace import StepTrace, unexplained_share
from statsnet.profiling.timeline import event_overhead_s
from statsnet.profiling.trace import LONG_STEP_S, StepFunction, captured, timed
from statsnet.profiling.unseen import Unseen, largest, look_for_unseen, unseen_in
from statsnet.profiling.unwatched_capture import look_nearer
from statsnet.signatures.intervals import student_t
from statsnet.signatures.measurement import Variation
from statsnet.workloads import Successive

PRECISE_MEAN = 0.05
"""Rounds go on until the 95 % interval of the mean's work and time is within this share of it on either side."""

FEWEST_ROUNDS, MOST_ROUNDS = 8, 64
MOST_SKIPPED = 3
"""Before a round, as many steps as chance says, up to this many, run unseen: in rounds of equal length, a model that
does something every n-th step may never be captured when it does."""
MOST_FOR_TIME = 24
"""Rounds for the time alone, once the work is known: a noisy machine would ask for all, and its interval is told."""
LONGEST_FOR_TIME_S = 60.0
"""Nor do rounds of slow steps go on for longer than this for the time alone."""

MOST_MORE_CALLS = 0.1
"""By this share profiled steps may have more calls than captured ones."""

SAMPLES = 5
"""The bare steps are averaged into this many samples, each of which stands for an average step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VaryingSteps:
    """A trace for each distinct step with the number of times it came, and how much the steps differ."""

    traces: list[StepTrace]
    times: list[int]
    variation: Variation


def trace_varying(
    step: StepFunction,
    *,
    device: str,
    prepare: Callable[[int], object],
    phases: Callable[[Callable[[str], None] | None], None] | None,
    inputs: Sequence[int],
    between: Callable[[], object] = lambda: None,
    report: Callable[[str, float], None] = lambda _stage, _share: None,
    min_time_s: float = 0.0,
    known: Lap | None = None,
    again: Callable[[type[CaptureMode]], Lap] | None = None,
) -> VaryingSteps:
    """Rounds of a captured, a bare and a profiled step that draw the same numbers.

    There are FEWEST_ROUNDS to MOST_ROUNDS: as many as bring the mean's 95 % interval within PRECISE_MEAN, for FLOPs
    (bytes where there are none) and, up to MOST_FOR_TIME, for the step's time. If it is `known` how steps repeat
    themselves, the rounds only time them; `again` captures them in another way. Raises MeasurementError where a part of
    the steps cannot be seen.
    """
    overhead_s = event_overhead_s(record_shapes=True)
    join = StepJoin(device=device, event_overhead_s=overhead_s)
    lap = known.averaged() if known and known.period else []
    turns = _Turns(sum(variant.times for variant in lap))
    turn = Successive(turns.counted(step), itertools.cycle(inputs), prepare)
    run = timed(turn, device)
    machine = QuietMachine(device)
    work: list[Work] = []
    bare_s: list[float] = []
    unseen: list[Unseen] = []
    captured_calls: list[int] = []
    more_calls: list[int] = []
    by: type[CaptureMode] = CaptureMode
    begin = time.perf_counter()

    def capture(draw: int, by: type[CaptureMode]) -> list[OpCall]:
        return captured(prepared(turn, draw), device=device, phases=phases, by=by)

    def capture_nearer(by: type[CaptureMode]) -> list[OpCall]:
        nonlocal lap
        lap = (again(by).averaged() if again else []) or lap
        return capture(0, by)

    def look(calls: list[OpCall]) -> Unseen:  # with all threads, whose events would be in the way of times
        steps = range(max(1, turns.lap))
        return largest(unseen_of(look_for_unseen(prepared(turn, 0), calls, device=device)[1], calls) for _ in steps)

    def unseen_of(events: StepEvents, calls: list[OpCall]) -> Unseen:  # a profiled step may be any of a lap's
        known = [variant.calls for variant in lap] or [calls]
        return min((unseen_in(events, each, device=device) for each in known), key=lambda unseen: unseen.share)

    def both(draw: int) -> tuple[float, StepEvents]:
        if not bare_s or bare_s[-1] < LONG_STEP_S:
            run()  # the capture and the profiler have left the caches to others
        bare = timed(_drawn(turn, draw), device)()
        prepared(turn, draw)
        turns.profiled()
        with profiling(device, record_shapes=True) as session:
            turn()
        return bare, StepEvents.take(session)

    for draw in range(MOST_ROUNDS):
        between()
        for _ in range(turns.to_skip(3 if not bare_s or bare_s[-1] < LONG_STEP_S else 2)):
            run()
        calls = capture(draw, by)
        if draw == 0:
            unseen.append(look(calls))
            as_known = lap
            if (nearer := look_nearer(unseen[0], calls, capture_nearer, look)) is not None:
                unseen[0], calls, by = nearer
            else:
                lap = as_known
            in_lap = [variant.calls for variant in lap for _ in range(variant.times)]
            lap_work = [Work.of(each) for each in in_lap]
            for each in in_lap:
                join.add_captured(each)
            if unseen[0].beside_operators.is_too_much:  # no other round would show it, nor explain it
                unseen[0].check()
        step_s, events = machine.measure(partial(both, draw))
        if not lap:
            join.add_captured(calls)
        unseen.append(unseen_of(events, calls))
        captured_calls.append(sum(not call.metadata for call in calls))
        more_calls.append(join.add_profiled(events) - captured_calls[-1])
        work.append(Work.mean(lap_work) if lap else Work.of(calls))
        bare_s.append(step_s)
        report("measuring steps that vary", 0.3 + 0.7 * (draw + 1) / MOST_ROUNDS)
        taken_s = time.perf_counter() - begin
        if not lap and draw + 1 >= FEWEST_ROUNDS and _grow(work):
            raise steps_grow()
        enough = draw + 1 >= FEWEST_ROUNDS and taken_s >= min_time_s
        lacks_steps = join.lacks_times if lap else _lacks_rare_steps(join.variants, unseen)
        if enough and is_known(_figures(work), bare_s, taken_s) and not lacks_steps:
            break
    if not lap:
        check_unaffected(captured_calls, more_calls)
    # Where no draw makes a step the same again, a profiled one may rightly call what the captured one did not.
    repeatable = bool(lap) or len(join.variants) == 1 or all(each.unmatched == 0 for each in unseen)
    largest(unseen if repeatable else [each.beside_operators for each in unseen]).check()
    return _together(join, bare_s, work, lap_work or work, device)


class _Turns:
    """Which steps come next, where the step that is profiled is to be each of a lap's in turn; without a lap (0), as
    many as chance says run unseen before a round."""

    def __init__(self, lap: int) -> None:
        self.lap = lap
        self._ran = 0
        self._profiled: set[int] = set()
        self._chance = Random(0)

    def counted(self, step: StepFunction) -> StepFunction:
        def run(index: int) -> Any:
            self._ran += 1
            return step(index)

        return run

    def profiled(self) -> None:
        """The next step is profiled."""
        if self.lap:
            self._profiled.add(self._ran % self.lap)

    def to_skip(self, between: int) -> int:
        """How many steps to run unseen before a round that profiles a step after this many others."""
        if not self.lap:
            return self._chance.randrange(MOST_SKIPPED + 1)
        if len(self._profiled) == self.lap:
            self._profiled.clear()
        places = ((skipped, (self._ran + skipped + between) % self.lap) for skipped in range(self.lap))
        return next((skipped for skipped, place in places if place not in self._profiled), 0)


def check_unaffected(captured_calls: Sequence[int], more_calls: Sequence[int]) -> None:
    """Raise ModelError if profiled steps make more calls than the captured ones before them. Steps that differ by
    chance make as many on average."""
    usual = max(fmean(captured_calls), 1.0)
    error = student_t(len(more_calls) - 1) * stdev(more_calls) / math.sqrt(len(more_calls))
    if fmean(more_calls) - error > MOST_MORE_CALLS * usual:
        raise ModelError(
            f"a step makes {fmean(more_calls) / usual:.0%} more calls when less of it is watched",
            cause="the model works until a clock says so, and watching takes some of that time",
            hint="let it do a set number of rounds for profiling, as many as it has time for when it runs by itself",
        )


def is_known(work: Sequence[float], time_s: Sequence[float], taken_s: float = 0.0) -> bool:
    """Whether the rounds, which took so long, tell the mean step's work, and its time as well as the machine allows."""
    if _half_width(work) > PRECISE_MEAN:
        return False
    return len(time_s) >= MOST_FOR_TIME or taken_s > LONGEST_FOR_TIME_S or _half_width(time_s) <= PRECISE_MEAN


def _grow(work: Sequence[Work]) -> bool:
    """Whether each step moves more than the one before, and computes no less."""
    return all(a.moved < b.moved and a.flops <= b.flops for a, b in itertools.pairwise(work))


def _lacks_rare_steps(captured_steps: Sequence[Variant], unseen: Sequence[Unseen]) -> bool:
    """Whether some profiled steps, not all, hold what no captured one does: every n-th step may copy a network, say."""
    lacking = sum(each.is_too_much for each in unseen)
    return len(captured_steps) == 1 and 0 < lacking < len(unseen)


def _drawn(turn: Successive, draw: int) -> Successive:
    """The turns, each prepared with this draw."""
    return Successive(lambda _: turn(), itertools.count(), lambda _: prepared(turn, draw))


def _together(
    join: StepJoin,
    bare_s: list[float],
    work: list[Work],
    all_work: list[Work],
    device: str,
) -> VaryingSteps:
    times = [variant.times for variant in join.variants]
    traces = traces_of(join.finish(), join.variants, times, device=device, bare_s=mean_samples(bare_s), warmup_s=[])
    variation = Variation(
        steps=len(bare_s),
        distinct=len(traces),
        work_deviation=_deviation(_figures(all_work)),
        work_error=_half_width(_figures(work)),
        time_deviation=_deviation(bare_s),
        time_error=_half_width(bare_s),
    )
    return VaryingSteps(traces=traces, times=times, variation=variation)


def traces_of(
    joined: JoinedSteps,
    variants: list[Variant],
    shares: Sequence[float],
    *,
    device: str,
    bare_s: list[float],
    warmup_s: list[float],
) -> list[StepTrace]:
    """A trace for each variant of a join, which occur in these shares. Framework time, idle time, bare steps and what
    of these is not explained are those of all of them."""
    profiled_s = fmean(joined.step_s) - (joined.idle_s if device == "cuda" else joined.recording_s)
    traces = [
        StepTrace(
            device=device,
            calls=variant.calls,
            implementations=joined.implementations[number],
            warmup_latency_s=warmup_s if number == 0 else [],
            step_latency_s=bare_s,
            profiled_latency_s=joined.step_s if number == 0 else [],
            framework_time_s=joined.framework_s,
            idle_time_s=joined.idle_s,
            kernels_launched=joined.kernels_launched,
            recording_s=joined.recording_s,
            waits=in_bare_step(joined.waits[number], median(bare_s), profiled_s) if joined.waits else [],
        )
        for number, variant in enumerate(variants)
    ]
    operators_s = sum(trace.op_time_s * n for trace, n in zip(traces, shares, strict=True)) / sum(shares)
    unexplained = unexplained_share(bare_s, operators_s, joined.framework_s + joined.idle_s)
    return [replace(trace, unexplained_share=unexplained) for trace in traces]


def mean_samples(latency_s: Sequence[float], count: int = SAMPLES) -> list[float]:
    """Means of successive ones, so that each stands for an average step."""
    count = min(count, SAMPLES, len(latency_s))
    edges = [round(i * len(latency_s) / count) for i in range(count + 1)]
    return [fmean(latency_s[a:b]) for a, b in itertools.pairwise(edges)]


def _figures(work: list[Work]) -> list[float]:
    """FLOPs of the steps; bytes where there are none."""
    flops = [each.flops for each in work]
    return flops if any(flops) else [each.moved for each in work]


def _deviation(values: Sequence[float]) -> float:
    mean = fmean(values)
    return pstdev(values) / mean if mean else 0.0


def _half_width(values: Sequence[float]) -> float:
    """Half of the mean's 95 % interval (Student's t), as a share of the mean."""
    mean = fmean(values)
    if len(values) < 2 or not mean:
        return math.inf if len(values) < 2 else 0.0
    return student_t(len(values) - 1) * stdev(values) / math.sqrt(len(values)) / mean
