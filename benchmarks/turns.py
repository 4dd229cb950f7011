"""How sure is a factor? One network against itself, or what a fidelity run measured twice.

    python benchmarks/turns.py PROXY [--groups 6]
    python benchmarks/turns.py --kept benchmarks/results/ENVIRONMENT/times.jsonl

With a proxy each group is two fresh processes at the baseline that take turns, so that every ratio should be 1. Printed
are the standard deviation of the ratios in turns, and that of single processes' medians times √2, by which two
processes differ that run one after the other. Run nothing else meanwhile. With --kept nothing runs: printed is by how
much the factor of one and the same workload or proxy, in one setting, differs from one group of the file to another,
and whether that is more than the scatter of their turns explains (of 95 % intervals, 5 % would be): if not, turns may
stand for groups.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from pathlib import Path
from statistics import median, stdev

import numpy as np
from contests import network_subject
from timings import Group, Timings

from statsnet.evaluation.factors import relative_error
from statsnet.measure.side_by_side import side_by_side
from statsnet.signatures.intervals import Interval, paired_ratio
from statsnet.workloads.settings import BASELINE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("proxy", type=Path, nargs="?")
    source.add_argument("--kept", type=Path, help="a file of times that benchmarks/fidelity.py left")
    parser.add_argument("--groups", type=int, default=6, help="at least 2 (default: 6)")
    options = parser.parse_args()
    if options.groups < 2:
        parser.error("--groups: a scatter takes at least 2")
    if options.kept is None:
        against_itself(options.proxy, options.groups)
    elif options.kept.is_file():
        between_groups(options.kept)
    else:
        parser.error(f"--kept: {options.kept} is no file")


def against_itself(proxy: Path, groups: int) -> None:
    job = network_subject(proxy, proxy.name).job(BASELINE)
    ratios: list[float] = []
    first: list[float] = []
    for number in range(groups):
        a, b = side_by_side({"jobs": [job, job]})["outcomes"]
        ratios.append(paired_ratio([a], [b]).value)
        first.append(median(a["latency_s"]))
        print(
            f"group {number + 1}: ratio {ratios[-1]:.3f}, {1e3 * first[-1]:.1f} ms",
            file=sys.stderr,
            flush=True,
        )
    print(f"in turns:            {stdev(map(math.log, ratios)):.1%}")
    print(f"one after the other: {math.sqrt(2) * stdev(map(math.log, first)):.1%}")


def between_groups(path: Path) -> None:
    rows = sorted(
        (math.expm1(abs(math.log1p(found.value))), _explained(found), subject, setting)
        for subject, groups in Timings(path).found.items()
        for setting in {*itertools.chain(*groups)} - {BASELINE.name}
        for found in _differences(groups, setting)
    )
    if not rows:
        raise SystemExit(f"{path}: nothing of this environment was measured more than once")
    found = [difference for difference, *_ in rows]
    print(
        f"{len(found)} pairs of groups: median {median(found):.1%}, 95th percentile {np.quantile(found, 0.95):.1%}"
    )
    beyond = sum(not explained for _, explained, *_ in rows)
    print(f"{beyond} of them are further apart than the scatter of their turns explains")
    for difference, _, subject, setting in rows[:-4:-1]:
        print(f"{difference:6.1%}  {subject} {setting}")


def _differences(groups: list[Group], setting: str) -> list[Interval]:
    """The factor from one group ÷ that from another − 1, of every two that hold the setting."""
    factors = [paired_ratio([group[BASELINE.name]], [group[setting]]) for group in groups if setting in group]
    return [relative_error(a, b) for a, b in itertools.combinations(factors, 2)]


def _explained(difference: Interval) -> bool:
    """Whether its interval holds 0, or is not known."""
    return difference.low is None or difference.high is None or difference.low <= 0.0 <= difference.high


if __name__ == "__main__":
    main()
