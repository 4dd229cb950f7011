"""How sure is a factor? One network against itself: processes that take turns, and the same ones taken by themselves.

    python benchmarks/turns.py PROXY [--groups 6]

Each group is two fresh processes at the baseline that take turns, so that every ratio should be 1. Printed are the
standard deviation of the ratios in turns, and that of single processes' medians times √2, by which two processes differ
that run one after the other. Run nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from statistics import median, stdev

from contests import network_subject

from statsnet.running.in_turn import side_by_side
from statsnet.running.settings import BASELINE
from statsnet.running.statistics import paired_ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("proxy", type=Path)
    parser.add_argument("--groups", type=int, default=6)
    options = parser.parse_args()
    job = network_subject(options.proxy, options.proxy.name).job(BASELINE)
    ratios: list[float] = []
    first: list[float] = []
    for number in range(options.groups):
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


if __name__ == "__main__":
    main()
