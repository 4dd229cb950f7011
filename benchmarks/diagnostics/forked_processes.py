"""Do forked measuring processes scatter like fresh ones, around the same mean?

    python benchmarks/diagnostics/forked_processes.py [PROXY ...] [--groups 10] [-o FILE]
    python benchmarks/diagnostics/forked_processes.py --kept FILE

In each group, two fresh and two forked processes of the same network take turns, fresh, forked, fresh, forked. What
slows the machine for seconds slows all four, so what is left is the luck of each process. Two of a kind show their
spread, one of each kind their ratio. The networks are the proxies in the folders PROXY and a small shipped model, whose
step is mostly framework time.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from benchmarks import csv_tables
from benchmarks.console import parser, report, start
from statsnet.errors import MeasurementError
from statsnet.evaluation.run_proxy import proxy_job
from statsnet.measure.control import DEFAULT, Control, Failure, Job
from statsnet.measure.forked_process import SWITCH
from statsnet.measure.side_by_side import side_by_side
from statsnet.measure.timing_tasks import Limits, Model, TimeWorkload, TimingTask
from statsnet.progress import Progress
from statsnet.proxy.folder import open_proxy
from statsnet.signatures.intervals import paired_ratio
from statsnet.signatures.timing import Timing

SMALL = Model(target="recsys/ncf", mode="inference", preset="tiny")

FRESH = Control(env={SWITCH: "0"})
"""A process with a variable of its own is a fresh one in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkedRow:
    """One group of processes: the medians of their windows."""

    network: str
    fresh_s: float
    forked_s: float
    fresh_again_s: float
    forked_again_s: float


def main() -> None:
    options = parser(__doc__)
    options.add_argument("proxies", nargs="*", metavar="PROXY", default=["generated/recsys-cv-inference"])
    options.add_argument("--kept", type=Path, metavar="FILE", help="print this table, measure nothing")
    options.add_argument("--groups", type=int, default=10)
    options.add_argument("--time", type=float, default=5.0, metavar="S", help="the windows of one process together")
    options.add_argument("-o", "--output", type=Path, default=Path("build/forked_processes/forked_processes.csv"))
    chosen = options.parse_args()
    if chosen.kept:
        rows = csv_tables.read(chosen.kept, ForkedRow)
    else:
        rows = _measured(chosen)
        csv_tables.write(chosen.output, ForkedRow, rows)
    for network, of_network in itertools.groupby(rows, lambda row: row.network):
        print(f"{network}: {summed_up([*of_network])}")


def _measured(options: argparse.Namespace) -> list[ForkedRow]:
    limits = Limits(min_time_s=options.time)
    tasks: dict[str, TimingTask] = {}
    for folder in options.proxies:
        tasks[Path(folder).name] = proxy_job(open_proxy(folder), limits=limits).task  # type: ignore[assignment]
    tasks[SMALL.target] = TimeWorkload(model=SMALL, limits=limits)
    rows = []
    for network, task in tasks.items():
        for number in range(1, options.groups + 1):
            report(Progress(stage=f"{network}, group {number} of {options.groups}"))
            rows.append(_group(network, task))
    return rows


def _group(network: str, task: TimingTask) -> ForkedRow:
    outcomes = side_by_side([Job(task, control) for control in (FRESH, DEFAULT, FRESH, DEFAULT)])
    fresh_s, forked_s, fresh_again_s, forked_again_s = (
        _latency_s(outcome.timing) for outcome in outcomes if not isinstance(outcome, Failure)
    )
    return ForkedRow(
        network=network,
        fresh_s=fresh_s,
        forked_s=forked_s,
        fresh_again_s=fresh_again_s,
        forked_again_s=forked_again_s,
    )


def _latency_s(timing: Timing) -> float:
    if timing.window_latency_s is None:
        raise MeasurementError("four processes of this network do not fit into memory", hint="take a smaller one")
    return median(timing.window_latency_s)


def summed_up(rows: Sequence[ForkedRow]) -> str:
    fresh = [(row.fresh_s, row.fresh_again_s) for row in rows]
    forked = [(row.forked_s, row.forked_again_s) for row in rows]
    ratio = paired_ratio(
        [_one(math.sqrt(first_s * again_s)) for first_s, again_s in fresh],
        [_one(math.sqrt(first_s * again_s)) for first_s, again_s in forked],
    )
    interval = "" if ratio.low is None or ratio.high is None else f" ({ratio.low:.4f} to {ratio.high:.4f})"
    return (
        f"{2 * len(rows)} forked processes take {ratio.value:.4f} of the time of as many fresh ones{interval}; "
        f"spread {spread(forked):.2%} forked, {spread(fresh):.2%} fresh"
    )


def spread(pairs: Sequence[tuple[float, float]]) -> float:
    """Standard deviation of a process's time, from pairs that ran at the same moments."""
    return math.sqrt(fmean(math.log(again_s / first_s) ** 2 for first_s, again_s in pairs) / 2)


def _one(latency_s: float) -> Timing:
    return Timing(latency_s=(latency_s,))


if __name__ == "__main__":
    start(main)
