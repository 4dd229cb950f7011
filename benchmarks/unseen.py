"""Do proxies follow models that nobody tuned for?

    python benchmarks/unseen.py [--seed SEED] [--mode MODE] [--mixes N] [--floor 50ms] [--others] [--limit 2h]
    python benchmarks/unseen.py --kept FILE ... [--since DATE]

A seed (default: today's date) draws six workloads that no table knows and three mixes of them, all in one mode: classes
of transformers, diffusers, torch-geometric and monai with random small configurations, and random networks of a grammar
(drawn/). Each is a file with a factory. It is profiled as a customer profiles it; then a proxy is made from the
signatures' files alone, which name no model. The real models and the proxy then run in fresh processes under five
settings, --rounds times, as in fidelity.py. A new day is a new draw, so that nobody can tune to it.

Each mix adds its rows to the table -o. Everything made and measured is kept in --folder, so that the same command goes
on where it was ended. With --limit no new part is begun after that time. Run nothing else meanwhile.

--floor makes proxies whose step is at least that long, beside those that are there already. --others measures, at the
same run time, what else may stand for a mix: its most expensive operators, a histogram of its layers, random blocks.
--kept prints tables: every mix, then median, 95th percentile and sign of the errors, and in how many mixes kernel
classes and coverage reach their goals. --since leaves out what was measured before that day.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from datetime import date
from functools import cache, partial
from pathlib import Path

from benchmarks import csv_tables
from benchmarks.console import duration, parser, report, start
from benchmarks.drawn.draw import Counted, CountStep, Workload, draw_workload, mixes_of, mode_of
from benchmarks.drawn.making import OTHERS, DrawnMix, comparisons_of, make_network, profile
from benchmarks.drawn.recipe import ClassesHere, ListClasses, Names, classes_here
from benchmarks.drawn.table import UnseenRow, add, latest, markdown, read, unseen_row
from benchmarks.fidelity import measure, row_of, why_failed
from benchmarks.suites import SETTINGS
from benchmarks.ways.comparisons import PROXY, Comparison
from statsnet.deadline import Deadline
from statsnet.environment import slug
from statsnet.errors import StatsNetError
from statsnet.evaluation.factors import Rounds
from statsnet.measure.control import Control
from statsnet.measure.process import measuring_environment, run
from statsnet.measure.rounds_log import RoundsLog
from statsnet.signatures.database import MODES
from statsnet.workloads.settings import parse_settings

COUNTING_TIMEOUT_S = 120.0
"""A drawn class that takes longer to build and to run once is not used."""


def main() -> int:
    options = _options()
    if options.kept:
        rows = latest(row for path in options.kept for row in csv_tables.read(path, UnseenRow))
        print(markdown([row for row in rows if row.date >= options.since]))
        return 0
    deadline = Deadline.after(options.limit)
    mode = options.mode or mode_of(options.seed)
    folder = options.folder / f"{options.seed}.{mode}"
    names = cache(partial(classes_here, _list_classes))
    failures = []
    for number, members in list(enumerate(mixes_of(options.seed)))[: options.mixes]:
        mix = DrawnMix(folder=folder, number=number, mode=mode, members=members, floor_s=options.floor)
        try:
            _measure_mix(mix, options, names, deadline)
        except StatsNetError as error:
            failures.append(f"mix {number}: {error}")
        if deadline.passed:
            print("The time is over; the same command goes on.", file=sys.stderr)
            break
    print("\n".join([markdown(_own(options.output, options.seed, mode)), *failures]))
    return 1 if failures else 0


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--kept", nargs="+", type=Path, metavar="FILE", help="print these tables, measure nothing")
    options.add_argument("--since", default="", metavar="DATE", help="of these tables, only rows from that day on")
    options.add_argument("--seed", type=_seed, default=date.today().isoformat(), help="default: today's date")
    options.add_argument("--mode", choices=MODES, help="default: days take turns, other seeds decide by chance")
    options.add_argument("--mixes", type=int, metavar="N", help="the first N mixes alone")
    options.add_argument("--floor", type=duration, metavar="TIME", help="the least length of a proxy's step")
    options.add_argument("--others", action="store_true", help=f"beside the proxies: {', '.join(OTHERS)}")
    options.add_argument("--settings", type=parse_settings, default=parse_settings(SETTINGS))
    options.add_argument("--rounds", type=int, default=3, help="groups of processes")
    options.add_argument("--limit", type=duration, metavar="TIME", help="begin nothing after this time")
    options.add_argument("--folder", type=Path, default=Path("build/unseen"), help="what is made and measured")
    options.add_argument("-o", "--output", type=Path, default=Path("build/unseen/unseen.csv"))
    chosen = options.parse_args()
    if chosen.rounds < 1 or (chosen.mixes is not None and chosen.mixes < 1):
        options.error("--rounds and --mixes are 1 or more")
    return chosen


def _seed(text: str) -> str:
    if not text or not all(character.isalnum() or character in "-_" for character in text):
        raise argparse.ArgumentTypeError(f"'{text}' is no seed: letters, digits, '-' and '_', as in 2026-01-31")
    return text


def _list_classes(task: ListClasses) -> ClassesHere:
    return run(task)


def _count(task: CountStep) -> Counted:
    return run(task, Control(label="a drawn workload", timeout_s=COUNTING_TIMEOUT_S))


def _measure_mix(mix: DrawnMix, options: argparse.Namespace, names: Callable[[], Names], deadline: Deadline) -> None:
    """Draw, profile, make and measure what is missing, until the deadline; add the rows of what is known."""
    drawn: dict[int, Workload] = {}
    for member in mix.members:
        if deadline.passed:
            return
        place = member.workload
        drawn[place] = draw_workload(options.seed, place, mix.mode, names, mix.folder, _count, report)
    profile(mix, report)
    ways = [PROXY, *(OTHERS if options.others else ())]
    for way in ways:
        if deadline.passed:
            return
        make_network(mix, way, report)
    log = RoundsLog(mix.folder / "times.jsonl")
    compared = comparisons_of(mix, ways)
    for rounds in range(1, options.rounds + 1):
        if deadline.passed:
            break
        measure(log, compared, options.settings, Rounds(fewest=rounds, most=rounds), rounds)
    members = " + ".join(f"{drawn[m.workload].recipe.label} {m.weight:.2f}" for m in mix.members)
    add(options.output, _rows(mix, members, compared, log, options))


def _rows(
    mix: DrawnMix, members: str, compared: Sequence[Comparison], log: RoundsLog, options: argparse.Namespace
) -> list[UnseenRow]:
    rows = []
    machine = slug(measuring_environment())
    for comparison in compared:
        fit = mix.proxy.fit() if comparison.way == PROXY else None
        for setting in options.settings:
            if why := why_failed(log, comparison, setting):
                print(f"left out: {why}", file=sys.stderr)
            elif all(log.tried(subject, setting) for subject in comparison.subjects()):
                rows.append(
                    unseen_row(
                        row_of(log, comparison, setting),
                        fit,
                        seed=options.seed,
                        mix=mix.number,
                        members=members,
                        floor_s=mix.floor_s,
                        machine=machine,
                        date=date.today().isoformat(),
                    )
                )
    return rows


def _own(path: Path, seed: str, mode: str) -> list[UnseenRow]:
    return [row for row in read(path) if (row.seed, row.mode) == (seed, mode)]


if __name__ == "__main__":
    start(main)
