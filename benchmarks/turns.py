"""How sure is a factor? One network against itself, or what a fidelity run measured twice.

    python benchmarks/turns.py PROXY [--groups 6]
    python benchmarks/turns.py --kept benchmarks/results/ENVIRONMENT/times.jsonl

With a proxy, each group is two fresh processes at the baseline that take turns, so that every ratio should be 1.
Printed are the standard deviation of the ratios in turns, and √2 times that of single processes' medians: two processes
that run one after the other differ by that much. Run nothing else meanwhile.

With --kept nothing runs. The factor of the same workload or proxy in the same setting differs from one group of the
file to another. Printed is by how much, and how often that is more than the scatter of their turns explains (for 95 %
intervals, 5 % would be). If it is rarely more, turns may stand for groups.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median, stdev

import numpy as np
from contests import network_subject
from core import report

from statsnet.evaluation.factors import relative_error
from statsnet.measure.control import Failure
from statsnet.measure.rounds_log import Group, RoundsLog
from statsnet.measure.side_by_side import side_by_side
from statsnet.progress import Progress
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
        between_groups(RoundsLog(options.kept))
    else:
        parser.error(f"--kept: {options.kept} is no file")


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


def between_groups(log: RoundsLog) -> None:
    rows = sorted(
        (math.expm1(abs(math.log1p(off.value))), _explained(off), subject, setting)
        for subject, groups in log.groups.items()
        for setting in {*itertools.chain(*groups)} - {BASELINE.name}
        for off in _differences(groups, setting)
    )
    if not rows:
        raise SystemExit(f"{log.path}: nothing of this environment was measured more than once")
    sizes = [size for size, *_ in rows]
    print(f"{len(sizes)} pairs of groups: median {median(sizes):.1%}, 95th percentile {np.quantile(sizes, 0.95):.1%}")
    beyond = sum(not explained for _, explained, *_ in rows)
    print(f"{beyond} of them are further apart than the scatter of their turns explains")
    for size, _, subject, setting in rows[:-4:-1]:
        print(f"{size:6.1%}  {subject} {setting}")


def _differences(groups: Sequence[Group], setting: str) -> list[Interval]:
    """The factor from one group ÷ that from another − 1, of every two that hold the setting."""
    pairs = [(group[BASELINE.name].timing, group[setting].timing) for group in groups if setting in group]
    factors = [paired_ratio([a], [b]) for a, b in pairs if a is not None and b is not None]
    return [relative_error(a, b) for a, b in itertools.combinations(factors, 2)]


def _explained(difference: Interval) -> bool:
    """Whether its interval holds 0, or is not known."""
    return difference.low is None or difference.high is None or difference.low <= 0.0 <= difference.high


if __name__ == "__main__":
    main()
