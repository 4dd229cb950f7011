"""How far are kernel classes from a few profiled steps from those of many?

    python benchmarks/diagnostics/few_steps.py WORKLOAD [--mode MODE] [--steps 24] [--processes 3] [--few 3,5,8]

WORKLOAD is a name, or FILE.py:factory. In each process its step is profiled so many times. Rows: so many steps that
follow one another. Columns: an operator's time is its median over the faster half of the steps; or the mean of the
faster half of its own times, as signatures have it. Cells: by how many percentage points shares of kernel classes miss
those of all steps of the process, on average over all begins and processes, and the 90th percentile. The last row: by
how much the processes differ. Run nothing else meanwhile.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.console import markdown_table, parser, report, start
from statsnet.measure.process import run
from statsnet.measure.quiet_machine import QuietMachine
from statsnet.measure.task import Context, Task
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.capture import capture_step
from statsnet.profiling.kernels import cpu_implementation
from statsnet.profiling.timeline import event_overhead_s, profile_step
from statsnet.progress import Progress
from statsnet.signatures.database import MODES
from statsnet.signatures.statistics import faster_half, total_variation, undisturbed_s
from statsnet.workloads import Successive, make_step

WARMUP_STEPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledSteps:
    """`operators_s`: steps × operators. `names` are those of the operators and of what implements them."""

    names: list[str]
    operators_s: list[list[float]]


@dataclass(frozen=True, kw_only=True)
class ProfileSteps(Task[ProfiledSteps]):
    """Profiles the step of a workload so many times."""

    model: Model
    steps: int

    def run(self, context: Context) -> ProfiledSteps:
        built = self.model.build("cpu")
        step = make_step(built, optimizer=self.model.optimizer)
        turn = Successive(step, itertools.count(), step.prepare)
        for _ in range(WARMUP_STEPS):
            turn.both()
        turn.prepare()
        calls = capture_step(turn, device="cpu", phases=partial(setattr, step, "on_phase"))
        overhead_s, machine = event_overhead_s(), QuietMachine()
        lines = []
        for number in range(self.steps + 1):  # the first one allocates what the others use
            turn.prepare()
            lines.append(machine.measure(partial(profile_step, turn, calls, device="cpu", event_overhead_s=overhead_s)))
            context.report(Progress(stage="profiling steps", done=number / self.steps))
        return ProfiledSteps(
            names=[f"{call.op}|{cpu_implementation(call.kernels)}" for call in calls],
            operators_s=[[time_s or 0.0 for time_s in line.op_time_s] for line in lines[1:]],
        )


def of_faster_steps(operators_s: np.ndarray) -> np.ndarray:
    steps_s = operators_s.sum(axis=1)
    times_s: np.ndarray = np.median(operators_s[steps_s <= max(faster_half([*steps_s]))], axis=0)
    return times_s


def of_faster_times(operators_s: np.ndarray) -> np.ndarray:
    return np.array([undisturbed_s([*times_s]) for times_s in operators_s.T])


WAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "faster half of the steps": of_faster_steps,
    "faster half of each operator's times": of_faster_times,
}


def points(way: Callable[[np.ndarray], np.ndarray], a: ProfiledSteps, some: slice, b: ProfiledSteps) -> float:
    """By how much some steps of one process differ from all of another."""
    few, many = (way(np.array(steps)) for steps in (a.operators_s[some], b.operators_s))
    return 100 * total_variation(_classes(a.names, few), _classes(b.names, many))


def _classes(names: Sequence[str], times_s: np.ndarray) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for name, time_s in zip(names, times_s, strict=True):
        sums[name] += float(time_s)
    return sums


def table(processes: Sequence[ProfiledSteps], few: Sequence[int]) -> str:
    rows = []
    for count in few:
        cells = []
        for way in WAYS.values():
            begins = [(p, i) for p in processes for i in range(len(p.operators_s) - count + 1)]
            missed = [points(way, p, slice(i, i + count), p) for p, i in begins]
            cells.append(f"{np.mean(missed):.1f} ({np.quantile(missed, 0.9):.1f})")
        rows.append([str(count), *cells])
    pairs = list(itertools.combinations(processes, 2))
    between = [np.mean([points(way, a, slice(None), b) for a, b in pairs]) for way in WAYS.values()]
    rows.append(["another process, all", *(f"{value:.1f}" for value in between)])
    return markdown_table(["steps", *WAYS], rows)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("workload")
    options.add_argument("--mode", choices=MODES, default=MODES[0])
    options.add_argument("--steps", type=int, default=24)
    options.add_argument("--processes", type=int, default=3)
    options.add_argument("--few", default="3,5,8", type=lambda text: [int(part) for part in text.split(",")])
    chosen = options.parse_args()
    if chosen.processes < 2 or not 2 <= min(chosen.few) <= max(chosen.few) <= chosen.steps:
        options.error("two processes or more are compared, and two steps or more, of --steps at most")
    processes = []
    for number in range(chosen.processes):
        report(Progress(stage=f"process {number + 1} of {chosen.processes}"))
        processes.append(run(ProfileSteps(model=Model(target=chosen.workload, mode=chosen.mode), steps=chosen.steps)))
    print(table(processes, chosen.few))


if __name__ == "__main__":
    start(main)
