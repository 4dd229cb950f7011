"""About how long a drawn workload's step takes, from counts alone, so that a draw is the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass

from statsnet.measure.task import Context, Task
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.capture import capture_step
from statsnet.profiling.representatives import Work
from statsnet.signatures.categories import is_metadata
from statsnet.workloads import make_step

FLOPS_PER_S, BYTES_PER_S, CALL_S = 8e10, 8e9, 5e-6
"""Rates of two cores, roughly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A step's work."""

    flops: float
    bytes_moved: float
    calls: int

    @property
    def estimate_s(self) -> float:
        return self.flops / FLOPS_PER_S + self.bytes_moved / BYTES_PER_S + self.calls * CALL_S


@dataclass(frozen=True, kw_only=True)
class CountStep(Task[Counted]):
    """Builds a model and runs one step. Raises what `build` and the step raise."""

    model: Model

    def run(self, context: Context) -> Counted:
        step = make_step(self.model.build("cpu"))
        calls = [call for call in capture_step(step, device="cpu") if not is_metadata(call.op)]
        work = Work.of(calls)
        return Counted(flops=work.flops, bytes_moved=work.moved, calls=len(calls))
