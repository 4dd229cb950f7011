"""Does a proxy's time change by its suite's factor from one machine to another?

    python benchmarks/moved.py [PROXY ...] [--rounds 3] [-o benchmarks/results/moved.csv]
    python benchmarks/moved.py --kept benchmarks/results/moved.csv

Times the proxies (by default the gallery's for CPUs) and the workloads that they stand for here, round by round in
fresh processes, and compares both with their times where the proxy was made, which stand in its folder. One line is
added to the table for each proxy that was made on another kind of machine; a later visit to one kind of machine
replaces it. The table that is printed holds all pairs of machines so far.

Times from where a proxy was made count as exact, so the intervals are those of the times here. Every process is logged
beside the table at once: an interrupted run goes on. Run nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from benchmarks import csv_tables
from benchmarks.console import markdown_table, parser, percent, report, start
from benchmarks.fidelity_table import columns
from statsnet.environment import slug
from statsnet.evaluation.factors import moved_row, subjects_of
from statsnet.evaluation.suite import NO_LIMITS, suite_of
from statsnet.measure.process import measuring_environment
from statsnet.measure.rounds_log import RoundsLog, measure_until_known
from statsnet.proxy.folder import open_proxy
from statsnet.signatures.results import Moved
from statsnet.signatures.timing import warnings_of
from statsnet.units import plural
from statsnet.workloads.settings import BASELINE

GALLERY = (Path("generated/recsys-cv-inference"), Path("generated/recsys-cv-training"))
MEDIAN, WORST = 0.04, 0.12
"""Goals of the absolute errors over all pairs of machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedRow:
    """`proxy` names its folder, `network` begins its network's digest. Bounds are those of 95 % intervals."""

    proxy: str
    network: str
    mode: str
    made_on: str
    run_on: str
    suite_factor: float
    proxy_factor: float
    error: float
    error_low: float | None = None
    error_high: float | None = None
    members: int
    rounds: int
    date: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.network, self.made_on, self.run_on


def main() -> None:
    options = _options()
    if options.kept is not None:
        rows = csv_tables.read(options.kept, MovedRow)
    else:
        rows = csv_tables.read_kept(options.output, MovedRow)
        for folder in options.proxies:
            row = measured(folder, options.rounds, options.output.with_suffix(".times.jsonl"))
            if row is None:
                print(f"{folder.name} was made on this kind of machine: it is no pair", file=sys.stderr)
                continue
            rows = [*(r for r in rows if r.key != row.key), row]
            csv_tables.write(options.output, MovedRow, rows, one_machine=False)
    print(markdown(rows))


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("proxies", nargs="*", type=Path, default=list(GALLERY), metavar="PROXY")
    options.add_argument("--rounds", type=int, default=3, help="processes of each workload and proxy")
    options.add_argument("--kept", type=Path, metavar="FILE", help="print this table, measure nothing")
    options.add_argument("-o", "--output", type=Path, default=Path("build/moved.csv"))
    return options.parse_args()


def measured(folder: Path, rounds: int, log_path: Path) -> MovedRow | None:
    """The factors from where the proxy was made to here; None if that is the same kind of machine."""
    proxy, here = open_proxy(folder), measuring_environment("cpu")
    fit, spec = proxy.fit(), proxy.spec
    assert fit is not None and fit.summary.step_latency_s is not None, f"{folder} was not measured where it was made"
    made_on, run_on = slug(spec.reference_environment), slug(here)
    if made_on == run_on:
        return None
    members, log = suite_of(spec, None), RoundsLog(log_path)
    subjects = subjects_of(proxy, members, "cpu", NO_LIMITS)
    measure_until_known(log, subjects, [], fewest=rounds, most=rounds, uncertain=set, report=report)
    for subject in subjects:
        for warning in warnings_of(log.of(subject, BASELINE)):
            print(f"{subject.label}: {warning}", file=sys.stderr)
    moved = moved_row(members, [log.of(subject, BASELINE) for subject in subjects], fit.summary.step_latency_s)
    return row_of(
        moved,
        proxy=folder.name,
        network=proxy.network_sha256[:12],
        mode=spec.mode,
        made_on=made_on,
        run_on=run_on,
        rounds=rounds,
    )


def row_of(moved: Moved, *, proxy: str, network: str, mode: str, made_on: str, run_on: str, rounds: int) -> MovedRow:
    return MovedRow(
        proxy=proxy,
        network=network,
        mode=mode,
        made_on=made_on,
        run_on=run_on,
        suite_factor=moved.suite_factor.value,
        proxy_factor=moved.proxy_factor.value,
        **columns("error", moved.error),
        members=len(moved.members),
        rounds=rounds,
        date=date.today().isoformat(),
    )


def markdown(rows: Sequence[MovedRow]) -> str:
    """All pairs, and what they say together."""
    header = ("proxy", "made on", "run on", "suite's factor", "proxy's", "error", "95 % interval")
    lines = []
    for r in rows:
        known = r.error_low is not None and r.error_high is not None
        interval = f"{percent(r.error_low or 0.0)} to {percent(r.error_high or 0.0)}" if known else ""
        factors = [f"{r.suite_factor:.3f}", f"{r.proxy_factor:.3f}", f"**{percent(r.error)}**", interval]
        lines.append([f"{r.proxy} ({plural(r.members, 'workload')})", r.made_on, r.run_on, *factors])
    return f"{markdown_table(header, lines)}\n\n{summary(rows)}"


def summary(rows: Sequence[MovedRow]) -> str:
    """The errors' median and worst beside their goals. Raises SystemExit without rows."""
    if not rows:
        raise SystemExit("no pair of machines yet: run this on another kind of machine than the proxies were made on")
    errors = np.abs([r.error for r in rows])
    return (
        f"{plural(len(rows), 'pair')} of machines: median {100 * np.median(errors):.1f} % (goal {100 * MEDIAN:.0f}), "
        f"worst {100 * errors.max():.1f} % (goal {100 * WORST:.0f})"
    )


if __name__ == "__main__":
    start(main)
