"""Which oneDNN primitives does a step spend its time in: kernels, or the reorders around them?

    python benchmarks/diagnostics/onednn_primitives.py TARGET ... [--setting compile=inductor] [--steps 30]

A target is a workload's name or a proxy's folder. Each makes so many inference steps while oneDNN logs what it runs and
how long that takes. Reorders convert maps and weights to the layout or dtype that a kernel needs. Run nothing else
meanwhile.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.console import parser, start
from statsnet.measure.network_file import load_network
from statsnet.measure.timing import relaunch_with_allocator
from statsnet.profiling.kernel_log import KernelLog
from statsnet.workloads import build, make_step
from statsnet.workloads.settings import BASELINE, Setting, convert_module, parse_settings, wrap_step

WARM_UPS = 5


def main() -> None:
    options = parser(__doc__)
    options.add_argument("targets", nargs="+", metavar="TARGET")
    options.add_argument("--setting", help="as of validate --settings, one of them")
    options.add_argument("--steps", type=int, default=30)
    chosen = options.parse_args()
    (setting,) = parse_settings(chosen.setting) if chosen.setting else [BASELINE]
    if any(os.environ.get(name) != value for name, value in setting.env.items()):
        command = [sys.executable, *sys.orig_argv[1:]]
        os.execve(command[0], command, {**os.environ, **setting.env})  # libraries read it once, at start
    relaunch_with_allocator()
    for target in chosen.targets:
        times = step_times_s(step_of(target, setting), chosen.steps)
        total_s = sum(seconds for _, seconds in times.values())
        print(f"{Path(target).name}, {setting.name}: {1e3 * total_s:.2f} ms of a step in oneDNN")
        for name, (calls, seconds) in sorted(times.items(), key=lambda item: -item[1][1]):
            print(f"  {name:50} {calls:6.1f} calls {1e3 * seconds:9.3f} ms {seconds / total_s:7.1%}")


def step_of(target: str, setting: Setting) -> Callable[[], Any]:
    """An inference step of a workload or a proxy, whose inputs take turns. Only the part of a setting that is switched
    inside a process is applied."""
    if Path(target).is_dir():
        network = load_network(target)
        step: Callable[[], Any] = network.make_step(convert_module(setting, network.build("cpu")), "cpu")
    else:
        built = build(target, mode="inference")
        convert_module(setting, built.model)
        workload, turn = make_step(built), itertools.count()

        def step() -> Any:
            return workload(next(turn))

    return wrap_step(setting, step, "cpu")


def step_times_s(step: Callable[[], Any], steps: int) -> dict[str, tuple[float, float]]:
    """Calls and seconds of one step by primitive and implementation."""
    for _ in range(WARM_UPS):
        step()
    with KernelLog() as log:
        for _ in range(steps):
            step()
        text = log.text()
    return {name: (calls / steps, seconds / steps) for name, (calls, seconds) in primitives_s(text).items()}


def primitives_s(text: str) -> dict[str, tuple[int, float]]:
    """From oneDNN's log: calls and seconds by primitive and implementation; all reorders are one."""
    sums: dict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for line in text.splitlines():
        fields = line.split(",")
        if line.startswith("onednn_verbose") and len(fields) > 6 and fields[3] == "exec":
            name = fields[5] if fields[5] == "reorder" else f"{fields[5]} {fields[6]}"
            calls, seconds = sums[name]
            sums[name] = (calls + 1, seconds + 1e-3 * float(fields[-1]))
    return dict(sums)


if __name__ == "__main__":
    start(main)
