"""How much does a factor vary from one measurement to the next?

    python benchmarks/diagnostics/repeatability.py PROXY [--groups 6]
    python benchmarks/diagnostics/repeatability.py --log build/fidelity/times.jsonl [-o FILE]
    python benchmarks/diagnostics/repeatability.py --kept FILE

With a proxy, each group is two fresh processes at the baseline that take turns, so that every ratio should be 1.
Printed are the standard deviation of the ratios in turns, and √2 times that of single processes' medians: two processes
that run one after the other differ by that much. Run nothing else meanwhile.

With the log of a fidelity run, nothing is measured. The factor of the same workload or proxy in the same setting
differs from one group of processes to another. Printed is by how much, and how often that is more than the scatter of
their turns explains (for 95 % intervals, 5 % would be). --kept prints the table that was made from a log.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, stdev

import numpy as np

from benchmarks import csv_tables
from benchmarks.console import parser, report, start
from benchmarks.ways.comparisons import network_subject
from statsnet.evaluation.factors import relative_error
from statsnet.measure.control import Failure
from statsnet.measure.rounds_log import Group, RoundsLog
from statsnet.measure.side_by_side import side_by_side
from statsnet.progress import Progress
from statsnet.signatures.intervals import paired_ratio
from statsnet.workloads.settings import BASELINE


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A subject's factor from one group of processes over that from another, less one, with its 95 % interval."""

    subject: str
    setting: str
    difference: float
    low: float | None
    high: float | None

    @property
    def size(self) -> float:
        """The same in either direction."""
        return math.expm1(abs(math.log1p(self.difference)))

    @property
    def explained(self) -> bool:
        """Whether the interval holds 0, or is not known."""
        return self.low is None or self.high is None or self.low <= 0.0 <= self.high


def main() -> None:
    options = parser(__doc__)
    source = options.add_mutually_exclusive_group(required=True)
    source.add_argument("proxy", type=Path, nargs="?")
    source.add_argument("--log", type=Path, metavar="FILE", help="the log of benchmarks/fidelity.py")
    source.add_argument("--kept", type=Path, metavar="FILE", help="print this table")
    options.add_argument("--groups", type=int, default=6, help="at least 2 (default: 6)")
    options.add_argument("-o", "--output", type=Path, default=Path("build/fidelity/repeatability.csv"))
    chosen = options.parse_args()
    if chosen.groups < 2:
        options.error("--groups: a scatter takes at least 2")
    if chosen.log and not chosen.log.is_file():
        options.error(f"--log: there is no file {chosen.log}; fidelity.py writes it")
    if chosen.proxy:
        against_itself(chosen.proxy, chosen.groups)
    elif chosen.kept:
        print(summed_up(csv_tables.read(chosen.kept, Difference)))
    else:
        rows = differences(RoundsLog(chosen.log))
        csv_tables.write(chosen.output, Difference, rows)
        print(summed_up(rows))


def against_itself(proxy: Path, groups: int) -> None:
    job = network_subject(proxy, proxy.name).job(BASELINE)
    ratios: list[float] = []
    first: list[float] = []
    for number in range(groups):
        a, b = (outcome.timing for outcome in side_by_side([job, job]) if not isinstance(outcome, Failure))
        ratios.append(paired_ratio([a], [b]).value)
        first.append(median(a.latency_s))
        stage = f"group {number + 1}: ratio {ratios[-1]:.3f}, {1e3 * first[-1]:.1f} ms"
        report(Progress(stage=stage))
    print(f"in turns:            {stdev(map(math.log, ratios)):.1%}")
    print(f"one after the other: {math.sqrt(2) * stdev(map(math.log, first)):.1%}")


def differences(log: RoundsLog) -> list[Difference]:
    """Between every two groups of a subject that hold the same setting."""
    return [
        difference
        for subject, groups in log.groups.items()
        for setting in sorted({*itertools.chain(*groups)} - {BASELINE.name})
        for difference in _between(subject, groups, setting)
    ]


def _between(subject: str, groups: Sequence[Group], setting: str) -> list[Difference]:
    pairs = [(group[BASELINE.name].timing, group[setting].timing) for group in groups if setting in group]
    factors = [paired_ratio([a], [b]) for a, b in pairs if a is not None and b is not None]
    ratios = [relative_error(a, b) for a, b in itertools.combinations(factors, 2)]
    return [Difference(subject=subject, setting=setting, difference=r.value, low=r.low, high=r.high) for r in ratios]


def summed_up(rows: Sequence[Difference]) -> str:
    if not rows:
        return "nothing of this environment was measured more than once"
    sizes = [row.size for row in rows]
    beyond = sum(not row.explained for row in rows)
    worst = sorted(rows, key=lambda row: -row.size)[:3]
    return "\n".join(
        [
            f"{len(sizes)} pairs of groups: median {median(sizes):.1%}, 95th percentile {np.quantile(sizes, 0.95):.1%}",
            f"{beyond} of them are further apart than the scatter of their turns explains",
            *(f"{row.size:6.1%}  {row.subject} {row.setting}" for row in worst),
        ]
    )


if __name__ == "__main__":
    start(main)
