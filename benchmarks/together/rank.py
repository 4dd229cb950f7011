"""One of several processes that run a model's step together: times it as a proxy's network.py times its own.

    python -m benchmarks.together.rank FILE:FACTORY --json FILE [--min-time S] [--max-time S]

It is started with torchrun's variables. The first process writes the file.
"""

from __future__ import annotations

import argparse
import os
import sys
from itertools import count
from pathlib import Path
from typing import Any

import torch

from benchmarks.console import parser, start
from statsnet.environment.record import quota_env
from statsnet.measure.ranks import Ranks
from statsnet.measure.timing import measure, relaunch_with_allocator
from statsnet.measure.timing_tasks import Model
from statsnet.measure.turns import PausingClock
from statsnet.profiling.distributed import group_is_there
from statsnet.signatures.canonical import write_json_atomically
from statsnet.workloads import Successive, make_step


def main() -> None:
    options = _options()
    relaunch_with_allocator()
    if threads := int(quota_env().get("OMP_NUM_THREADS", 0)):
        torch.set_num_threads(threads)
    ranks = Ranks("cpu", [])
    with group_is_there():
        step = make_step(Model(target=options.model, mode="training").build("cpu"))
    made, clock = Successive(step, count(), step.prepare), PausingClock()

    def run() -> Any:
        clock.pause(made.prepare)
        return made()

    limits = {"min_time_s": options.min_time, "max_time_s": options.max_time}
    process = measure(run, device="cpu", clock=clock, ranks=ranks, **limits)
    if ranks.rank == 0:
        write_json_atomically(options.json, {"processes": [process]})
    ranks.leave()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a thread of gloo that still runs aborts an interpreter that ends


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("model", metavar="FILE:FACTORY")
    options.add_argument("--json", type=Path, required=True, metavar="FILE")
    options.add_argument("--min-time", type=float, default=1.0, metavar="S")
    options.add_argument("--max-time", type=float, default=20.0, metavar="S")
    return options.parse_args()


if __name__ == "__main__":
    start(main)
