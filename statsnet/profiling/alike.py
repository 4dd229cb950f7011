"""Whether a workload's successive steps are alike, so that one of them stands for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from statsnet.errors import MeasurementError
from statsnet.measure.profiler_events import StepEvents, profiling
from statsnet.profiling.capture import CaptureMode, OpCall
from statsnet.profiling.draws import prepared
from statsnet.profiling.joining import Variant, event_shapes
from statsnet.profiling.timeline import Timeline, profile_step, read_step
from statsnet.profiling.unseen import Unseen, look_for_unseen
from statsnet.profiling.unwatched_capture import look_nearer
from statsnet.workloads import Successive

CAPTURES = 3
"""So many steps are captured to see whether steps are alike; two of those that take longer than VERY_SLOW_STEP_S."""
SLOW_STEP_S, VERY_SLOW_STEP_S = 0.5, 2.0
LONG_CALL_S = 1e-3
"""Recording an operator's shapes takes microseconds. If calls are longer than this on average, that changes no time: of
a slow step the profiled ones show whether steps are alike, in the place of further captures."""


class StepsVary(Exception):
    """Successive steps call different operators, or the same at different shapes: no single one stands for all."""


class Alike:
    """Looks at whether successive steps make the calls of the captured one, at its shapes. Steps that were not looked
    at show themselves by calls that are not found, and by operators that run beside them. A step takes about
    `step_s`."""

    def __init__(
        self,
        capture: Callable[[int, type[CaptureMode]], list[OpCall]],
        turn: Successive,
        device: str,
        step_s: float,
    ) -> None:
        self._capture, self._turn, self._device = capture, turn, device
        self._by: type[CaptureMode] = CaptureMode
        self.calls = capture(0, self._by)
        self.shows_in_profiles = step_s > max(SLOW_STEP_S, LONG_CALL_S * len(self.calls))
        self._further = range(1, 2 if step_s > VERY_SLOW_STEP_S else CAPTURES)
        self._shapes: list[Any] | None = None
        if not self.shows_in_profiles:
            self._compare(self._further)

    def _compare(self, draws: Sequence[int]) -> None:
        keys = Variant.of(self.calls).keys
        for draw in draws:
            if Variant.of(self._capture(draw, self._by)).keys != keys:
                raise StepsVary

    def look(self) -> None:
        """Profile a step with all threads and shapes. Refuse what the capture has not seen, unless steps vary."""
        unseen, shapes = self._look(self.calls), self._shapes
        if (nearer := look_nearer(unseen, self.calls, lambda by: self._capture(0, by), self._look)) is not None:
            unseen, self.calls, self._by = nearer
        else:
            self._shapes = shapes
        try:
            unseen.check()
        except MeasurementError:
            self._compare(range(CAPTURES, 2 * CAPTURES))
            if any(not self._look(self.calls).is_too_much for _ in range(CAPTURES)):
                raise StepsVary from None
            raise
        if self.shows_in_profiles and self._shapes is None:
            self.shows_in_profiles = False
            self._compare(self._further)

    def _look(self, calls: list[OpCall]) -> Unseen:
        unseen, events = look_for_unseen(prepared(self._turn, 0), calls, device=self._device)
        self._shapes = event_shapes(events, calls)
        return unseen

    def profile(self, event_overhead_s: float) -> Timeline:
        """Profile the step that was prepared."""
        if not self.shows_in_profiles:
            return profile_step(self._turn, self.calls, device=self._device, event_overhead_s=event_overhead_s)
        return read_step(self._events(), self.calls, device=self._device, event_overhead_s=event_overhead_s)

    def look_again(self, timelines: Sequence[Timeline]) -> None:
        """After the measured steps, at another draw."""
        if not self.shows_in_profiles:
            self._turn.prepare()
            self._events()
        if len({(line.unmatched, line.beside) for line in timelines}) > 1:
            raise StepsVary

    def _events(self) -> StepEvents:
        """Those of a step, whose shapes must be those that were seen first."""
        with profiling(self._device, record_shapes=True) as session:
            self._turn()
        events = StepEvents.take(session)
        shapes = event_shapes(events, self.calls)
        if self._shapes is not None and shapes is not None and shapes != self._shapes:
            raise StepsVary
        return events
