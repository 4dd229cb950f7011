"""How far are kernel classes from a few profiled steps from those of many?

    python benchmarks/diagnostics/few_steps.py WORKLOAD [--mode MODE] [--steps 24] [--processes 3] [--few 3,5,8]

WORKLOAD is a name, or FILE.py:factory. In each process its step is profiled so many times, on one input. Rows: so many
steps that follow one another. Columns: an operator's time is its median over the faster half of the steps; or the mean
of the faster half of its own times, as signatures have it. Cells: by how many percentage points shares of kernel
classes miss those by each operator's median over all steps of another process, on average over all begins and pairs of
processes, and the 90th percentile. The last row has all steps of a process. Run nothing else meanwhile.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.console import markdown_table, parser, report, start
from benchmarks.diagnostics.profiled_steps import ProfiledSteps, ProfileSteps
from statsnet.measure.process import run
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.operator_times import undisturbed_s
from statsnet.progress import Progress
from statsnet.signatures.database import MODES
from statsnet.signatures.statistics import faster_half, total_variation


def of_faster_steps(steps_s: np.ndarray, operators_s: np.ndarray) -> np.ndarray:
    times_s: np.ndarray = np.median(operators_s[steps_s <= max(faster_half([*steps_s]))], axis=0)
    return times_s


def of_faster_times(steps_s: np.ndarray, operators_s: np.ndarray) -> np.ndarray:
    return np.array([undisturbed_s([*times_s]) for times_s in operators_s.T])


Way = Callable[[np.ndarray, np.ndarray], np.ndarray]
WAYS: dict[str, Way] = {
    "faster half of the steps": of_faster_steps,
    "faster half of each operator's times": of_faster_times,
}


def points(way: Way, some: ProfiledSteps, part: slice, other: ProfiledSteps) -> float:
    """By how much a part of the steps of one process differs from all of another."""
    few = way(np.array(some.steps_s[part]), np.array(some.operators_s[part]))
    many = np.median(np.array(other.operators_s), axis=0)
    return 100 * total_variation(_sums(some.classes, few), _sums(other.classes, many))


def _sums(classes: Sequence[str], times_s: np.ndarray) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for name, time_s in zip(classes, times_s, strict=True):
        sums[name] += float(time_s)
    return sums


def table(processes: Sequence[ProfiledSteps], few: Sequence[int]) -> str:
    pairs = list(itertools.permutations(processes, 2))
    rows = []
    for count in [*few, len(processes[0].steps_s)]:
        parts = [slice(i, i + count) for i in range(len(processes[0].steps_s) - count + 1)]
        missed = [[points(way, a, part, b) for a, b in pairs for part in parts] for way in WAYS.values()]
        rows.append([str(count), *(f"{np.mean(each):.1f} ({np.quantile(each, 0.9):.1f})" for each in missed)])
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
