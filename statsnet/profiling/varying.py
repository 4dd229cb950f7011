"""Steps that are not alike: random layers, routing that depends on data, shapes that change.

No single step stands for them, so several are averaged. Each round captures, times and profiles a step at one draw of
random numbers, so that operators and times are of the same steps; `joining` brings together what differs all the same.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import fmean, pstdev, stdev
from typing import Any

from statsnet.errors import ModelError
from statsnet.measure.profiler_events import StepEvents, profiling
from statsnet.measure.quiet_machine import QuietMachine
from statsnet.profiling.capture import CaptureMode, OpCall
from statsnet.profiling.draws import prepared
from statsnet.profiling.joined_traces import mean_samples, traces_of
from statsnet.profiling.joining import StepJoin, Variant
from statsnet.profiling.laps import Lap, steps_grow
from statsnet.profiling.representatives import Work
from statsnet.profiling.step_trace import StepTrace
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
    rounds = _Rounds(step, device=device, prepare=prepare, phases=phases, inputs=inputs, known=known, again=again)
    begin = time.perf_counter()
    for draw in range(MOST_ROUNDS):
        between()
        rounds.add(draw)
        report("measuring steps that vary", 0.3 + 0.7 * (draw + 1) / MOST_ROUNDS)
        if draw + 1 >= FEWEST_ROUNDS and rounds.are_enough(time.perf_counter() - begin, min_time_s):
            break
    return rounds.finish()


class _Rounds:
    """The rounds and what they have shown so far. `_lap` are the steps that come again and again, if they are known:
    they were captured before, so the rounds only time them."""

    def __init__(
        self,
        step: StepFunction,
        *,
        device: str,
        prepare: Callable[[int], object],
        phases: Callable[[Callable[[str], None] | None], None] | None,
        inputs: Sequence[int],
        known: Lap | None,
        again: Callable[[type[CaptureMode]], Lap] | None,
    ) -> None:
        self._device, self._phases, self._again = device, phases, again
        self._join = StepJoin(device=device, event_overhead_s=event_overhead_s(record_shapes=True))
        self._lap = known.averaged() if known and known.period else []
        self._turns = _Turns(sum(variant.times for variant in self._lap))
        self._turn = Successive(self._turns.counted(step), itertools.cycle(inputs), prepare)
        self._run = timed(self._turn, device)
        self._machine = QuietMachine(device)
        self._by: type[CaptureMode] = CaptureMode
        self._work: list[Work] = []
        self._lap_work: list[Work] = []
        self._bare_s: list[float] = []
        self._unseen: list[Unseen] = []
        self._captured_calls: list[int] = []
        self._more_calls: list[int] = []

    def add(self, draw: int) -> None:
        """A captured, a bare and a profiled step with this draw."""
        for _ in range(self._turns.to_skip(2 if self._is_long else 3)):
            self._run()
        calls = self._capture(draw)
        if draw == 0:
            calls = self._look(calls)
        step_s, events = self._machine.measure(partial(self._timed_and_profiled, draw))
        if not self._lap:
            self._join.add_captured(calls)
        self._unseen.append(self._unseen_of(events, calls))
        self._captured_calls.append(sum(not call.metadata for call in calls))
        self._more_calls.append(self._join.add_profiled(events) - self._captured_calls[-1])
        self._work.append(Work.mean(self._lap_work) if self._lap else Work.of(calls))
        self._bare_s.append(step_s)

    def are_enough(self, taken_s: float, min_time_s: float) -> bool:
        """Whether the rounds, which took so long, tell what steps do on average. Raises where steps grow."""
        if not self._lap and _grow(self._work):
            raise steps_grow()
        lacks = self._join.lacks_times if self._lap else _lacks_rare_steps(self._join.variants, self._unseen)
        return taken_s >= min_time_s and is_known(_figures(self._work), self._bare_s, taken_s) and not lacks

    def finish(self) -> VaryingSteps:
        if not self._lap:
            check_unaffected(self._captured_calls, self._more_calls)
        variants = self._join.variants
        # Where no draw makes a step the same again, a profiled one may rightly call what the captured one did not.
        repeatable = bool(self._lap) or len(variants) == 1 or all(each.unmatched == 0 for each in self._unseen)
        largest(self._unseen if repeatable else [each.beside_operators for each in self._unseen]).check()
        times = [variant.times for variant in variants]
        traces = traces_of(
            self._join.finish(),
            variants,
            times,
            device=self._device,
            bare_s=mean_samples(self._bare_s),
            average_s=fmean(self._bare_s),  # as operators have their means: a median step may hold none of a rare one
            warmup_s=[],
        )
        variation = Variation(
            steps=len(self._bare_s),
            distinct=len(traces),
            work_deviation=_deviation(_figures(self._lap_work or self._work)),
            work_error=_half_width(_figures(self._work)),
            time_deviation=_deviation(self._bare_s),
            time_error=_half_width(self._bare_s),
        )
        return VaryingSteps(traces=traces, times=times, variation=variation)

    @property
    def _is_long(self) -> bool:
        """Whether the last bare step was. Of a long one it does not matter what the caches hold when it begins."""
        return bool(self._bare_s) and self._bare_s[-1] >= LONG_STEP_S

    def _capture(self, draw: int) -> list[OpCall]:
        return captured(prepared(self._turn, draw), device=self._device, phases=self._phases, by=self._by)

    def _look(self, calls: list[OpCall]) -> list[OpCall]:
        """Look once for what the capture does not see, and capture otherwise if that shows more; returns the first
        step's calls. A lap's steps are joined now."""
        self._unseen.append(self._unseen_with_all_threads(calls))
        as_known = self._lap
        nearer = look_nearer(self._unseen[0], calls, self._capture_nearer, self._unseen_with_all_threads)
        if nearer is not None:
            self._unseen[0], calls, self._by = nearer
        else:
            self._lap = as_known
        in_lap = [variant.calls for variant in self._lap for _ in range(variant.times)]
        self._lap_work = [Work.of(each) for each in in_lap]
        for each in in_lap:
            self._join.add_captured(each)
        if self._unseen[0].beside_operators.is_too_much:  # no other round would show it, nor explain it
            self._unseen[0].check()
        return calls

    def _capture_nearer(self, by: type[CaptureMode]) -> list[OpCall]:
        self._lap = (self._again(by).averaged() if self._again else []) or self._lap
        return captured(prepared(self._turn, 0), device=self._device, phases=self._phases, by=by)

    def _unseen_with_all_threads(self, calls: list[OpCall]) -> Unseen:
        """Their events would be in the way of times."""
        steps = range(max(1, self._turns.lap))
        device = self._device
        return largest(
            self._unseen_of(look_for_unseen(prepared(self._turn, 0), calls, device=device)[1], calls) for _ in steps
        )

    def _unseen_of(self, events: StepEvents, calls: list[OpCall]) -> Unseen:
        """Of a profiled step, which may be any of a lap's."""
        known = [variant.calls for variant in self._lap] or [calls]
        return min((unseen_in(events, each, device=self._device) for each in known), key=lambda unseen: unseen.share)

    def _timed_and_profiled(self, draw: int) -> tuple[float, StepEvents]:
        if not self._is_long:
            self._run()  # the capture and the profiler have left the caches to others
        bare_s = timed(_drawn(self._turn, draw), self._device)()
        prepared(self._turn, draw)
        self._turns.profiled()
        with profiling(self._device, record_shapes=True) as session:
            self._turn()
        return bare_s, StepEvents.take(session)


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
