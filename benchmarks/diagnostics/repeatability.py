"""How much does a factor vary from one measurement to the next?

    python benchmarks/diagnostics/repeatability.py --log build/fidelity/times.jsonl [-o FILE]
    python benchmarks/diagnostics/repeatability.py --kept FILE

Reads the log of a fidelity run: the factor of the same workload or proxy in the same setting differs from one group of
processes to another. Printed is by how much, and how often that is more than the scatter of their turns explains (for
95 % intervals, 5 % would be). --kept prints the table that was made from a log.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks import csv_tables
from benchmarks.console import parser, start
from statsnet.evaluation.factors import relative_error
from statsnet.measure.rounds_log import Group, RoundsLog
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
    source.add_argument("--log", type=Path, metavar="FILE", help="the log of benchmarks/fidelity.py")
    source.add_argument("--kept", type=Path, metavar="FILE", help="print this table")
    options.add_argument("-o", "--output", type=Path, default=Path("build/fidelity/repeatability.csv"))
    chosen = options.parse_args()
    if chosen.log and not chosen.log.is_file():
        options.error(f"--log: there is no file {chosen.log}; fidelity.py writes it")
    rows = csv_tables.read(chosen.kept, Difference) if chosen.kept else differences(RoundsLog(chosen.log))
    if chosen.log:
        csv_tables.write(chosen.output, Difference, rows)
    print(summed_up(rows))


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
