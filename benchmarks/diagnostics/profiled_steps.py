"""The operators' times in many profiled steps of a workload."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial

from statsnet.errors import MeasurementError
from statsnet.measure.quiet_machine import QuietMachine
from statsnet.measure.task import Context, Task
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.kernels import cpu_implementation
from statsnet.profiling.timeline import Timeline, event_overhead_s, profile_step
from statsnet.profiling.trace import captured
from statsnet.progress import Progress
from statsnet.signatures.kernel_class import kernel_class
from statsnet.workloads import Successive, make_step

WARMUP_STEPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledSteps:
    """`operators_s`: steps × operators. `classes` are the operators' kernel classes."""

    classes: list[str]
    steps_s: list[float]
    operators_s: list[list[float]]


@dataclass(frozen=True, kw_only=True)
class ProfileSteps(Task[ProfiledSteps]):
    """Profiles the step of a workload so many times."""

    model: Model
    steps: int

    def run(self, context: Context) -> ProfiledSteps:
        built = self.model.build("cpu")
        step = make_step(built, optimizer=self.model.optimizer)
        turn = Successive(step, itertools.repeat(0), step.prepare)
        for _ in range(WARMUP_STEPS):
            turn.both()
        turn.prepare()
        calls = captured(turn, device="cpu", phases=partial(setattr, step, "on_phase"))
        overhead_s, machine = event_overhead_s(), QuietMachine()

        def profiled() -> Timeline:
            turn.prepare()
            return profile_step(turn, calls, device="cpu", event_overhead_s=overhead_s)

        lines = []
        for number in range(self.steps + 1):  # the first one allocates what the others use
            lines.append(machine.measure(profiled))
            context.report(Progress(stage="profiling steps", done=number / self.steps))
        if any(line.unmatched for line in lines):
            raise MeasurementError("steps of this workload make different calls", hint="name one whose steps are alike")
        return ProfiledSteps(
            classes=[kernel_class(c.op, c.args, c.outputs, cpu_implementation(c.kernels)) for c in calls],
            steps_s=[line.step_s for line in lines[1:]],
            operators_s=[[time_s or 0.0 for time_s in line.op_time_s] for line in lines[1:]],
        )
