"""The captured and profiled steps of a user's own loop: by which capture they are seen as they run, and what it lacks.

A step of such a loop runs once, so that none is captured in two ways or looked at twice. If a profiled step lacks
calls that the captured ones have, the next step is captured by UnwatchedCapture; the profiled step after that tells
which of the two sees what runs.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from statistics import median_low

from statsnet.errors import MeasurementError
from statsnet.measure.profiler_events import StepEvents
from statsnet.profiling.capture import CaptureMode, OpCall
from statsnet.profiling.communication_hooks import check_hooks_have_begun, wrappers
from statsnet.profiling.distributed import alone, first_steps
from statsnet.profiling.joining import JoinedSteps, StepJoin, Variant, nearest_variants
from statsnet.profiling.unseen import Unseen, check_collectives, in_one_thread, largest, unseen_in
from statsnet.profiling.unwatched_capture import UnwatchedCapture, is_nearer, is_possible, is_suspect
from statsnet.signatures.collectives import is_collective


class LoopSteps:
    """Takes the steps of a loop in their order; the first one should be captured. `by` is how the next one is to be.

    Steps of another `kind` are not compared with each other. Each step of several processes that run together is
    captured by CaptureMode, and only their collectives are counted: what they wait for is not alike from step to step.
    """

    def __init__(self, *, device: str, event_overhead_s: float) -> None:
        self._device, self._overhead_s = device, event_overhead_s
        self._joins: dict[type[CaptureMode], StepJoin] = {}
        self._unseen: dict[type[CaptureMode], list[Unseen]] = {}
        self.by: type[CaptureMode] = CaptureMode
        self._is_decided = not alone()
        self._works: int | None = None

    @property
    def looks_at_threads(self) -> bool:
        """Whether the next profiled step should show all threads: the first one."""
        return not self._unseen if alone() else self._works is None

    @property
    def variants(self) -> list[Variant]:
        return self._best.variants

    def add_captured(self, calls: list[OpCall], kind: int = 0) -> None:
        """A step that was captured by `by`."""
        if self.by not in self._joins:
            self._joins[self.by] = StepJoin(device=self._device, event_overhead_s=self._overhead_s)
        self._joins[self.by].add_captured(calls, kind)

    def add_profiled(self, step: StepEvents, kind: int = 0) -> None:
        """A step that was profiled with shapes."""
        found = {by: self._least_unseen(step, join, kind) for by, join in self._joins.items()} if alone() else {}
        for by, unseen in found.items():
            if unseen is not None:
                self._unseen.setdefault(by, []).append(unseen)
        if self._works is None:
            self._works = len(step.works)
        own = in_one_thread(step) if self._device == "cpu" else step  # on a GPU autograd has threads
        for join in self._joins.values():
            join.add_profiled(own)
        if not self._is_decided:
            self._decide(found)

    def finish(self) -> JoinedSteps:
        """Raises MeasurementError where a part of the steps cannot be seen."""
        self._check()
        if not alone():
            most = max((v.calls for v in self.variants), key=lambda calls: sum(is_collective(c.op) for c in calls))
            check_collectives(self._works or 0, most)
            check_hooks_have_begun(wrappers())
        return self._best.finish()

    @property
    def _best(self) -> StepJoin:
        """The steps by the capture that was decided for, else by the first."""
        return self._joins[self.by if self._is_decided else CaptureMode]

    def _decide(self, found: dict[type[CaptureMode], Unseen | None]) -> None:
        watched, unwatched = found.get(CaptureMode), found.get(UnwatchedCapture)
        is_asked = self._is_asked
        if watched is not None and unwatched is not None:
            self.by = UnwatchedCapture if is_nearer(unwatched, watched, is_asked=is_asked) else CaptureMode
            self._is_decided = True
        elif watched is not None and (is_asked or is_suspect(watched, [])) and is_possible():
            self.by = UnwatchedCapture

    def _least_unseen(self, step: StepEvents, join: StepJoin, kind: int) -> Unseen | None:
        """What the step has beside the captured one that is most like it; None if none of its kind was captured."""
        of_kind = [variant for variant in join.variants if variant.kind == kind]
        nearest = (of_kind[place] for place in nearest_variants(of_kind, step))
        alike = [unseen_in(step, variant.calls, device=self._device) for variant in nearest]
        return min(alike, key=lambda each: (each.unmatched, each.time_share), default=None)

    def _check(self) -> None:
        unseen = self._unseen.get(self.by if self._is_decided else CaptureMode, [])
        if not unseen:
            return
        largest(each.beside_operators for each in unseen).check()
        longer = "run the loop longer (30 steps are good): the next steps are captured in another way"
        is_open = self.by is UnwatchedCapture and not self._is_decided
        if is_open and self._is_asked:
            raise MeasurementError(
                "the loop was too short to tell what its decompositions compute",
                cause="of eigenvalues and singular values, the first capture always sees the vectors too",
                hint=longer,
            )
        # A loop whose steps rightly differ has several variants, or a step now and then that is unlike all.
        if len({variant.kind for variant in self.variants}) < len(self.variants):
            return
        middle = _middle(unseen)
        try:
            middle.check()
        except MeasurementError as error:
            if is_open:
                raise MeasurementError(error.message, cause=error.cause, hint=longer) from None
            raise

    @property
    def _is_asked(self) -> bool:
        """Whether a mode may have seen more of an operator than the loop asked for."""
        return any(is_suspect(Unseen(step_s=0.0), v.calls) for v in self._joins[CaptureMode].variants)


def _middle(unseen: Iterable[Unseen]) -> Unseen:
    shares = {max(each.time_share, each.call_share): each for each in unseen}
    return shares[median_low(shares)]


ROUND = ("capture", "profile", "bare")
MAX_ROUNDS = 20
"""After this many rounds the loop runs on undisturbed."""


class Schedule:
    """The purpose of each step. The order changes from the second round on: otherwise, in a loop whose inputs
    repeat, one kind of step could always get the same inputs. So many are `needed` that each purpose has one."""

    def __init__(self) -> None:
        self._random = random.Random(0)
        self._coming = ["warmup"] * first_steps()
        self.needed = first_steps() + len(ROUND)
        self._rounds = 0

    def next(self) -> str:
        if not self._coming and self._rounds < MAX_ROUNDS:
            self._coming = self._random.sample(ROUND, len(ROUND)) if self._rounds else list(ROUND)
            self._rounds += 1
        return self._coming.pop(0) if self._coming else "none"

    @property
    def is_over(self) -> bool:
        """Whether all further steps are left alone."""
        return not self._coming and self._rounds >= MAX_ROUNDS

    def end(self) -> None:
        """Leave all further steps alone."""
        self._coming, self._rounds = [], MAX_ROUNDS
