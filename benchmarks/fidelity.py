"""Does a proxy's time change by the suite's factor when a setting changes?

    python benchmarks/fidelity.py --rounds 3 --most-rounds 3 -o build/fidelity_inference.csv --modes inference
    python benchmarks/fidelity.py --kept FILE ... [--mixes MIX ...] [--settings SETTING,...]

For each mix, mode and compression a proxy is made, unless --proxies holds one already. For the mixes of --others,
other networks that may stand for them are made too (ways/baselines.py); with --ways coarse, proxies of what signatures
of level coarse tell. A mix is a name such as 'recommendation + vision' (suites.py) or spelled out.

Every workload and every network then runs in fresh processes, one for the baseline and one for each setting, which take
turns. A workload's run serves all mixes that it belongs to. After --rounds, more follow for those whose 95 % interval
of ln F has a half-width over 1.5 %, up to --most-rounds. Every group of processes is logged to times.jsonl at once, so
that an interrupted run continues where it stopped. With --rounds 0 --most-rounds 0 it only adds up. Run nothing else
meanwhile. With --engine ray the nodes of a cluster measure, several groups at once.

Under another runtime, members that it cannot load are named beside the mix and left out on both sides: a proxy for the
others is made too.

Suite factor F_S(e) = sum of w_i T_i(e) / T_i(baseline), proxy factor F_P(e) = T_P(e) / T_P(baseline), error
F_P / F_S - 1. --kept prints tables that were written before; where several hold the same row, the last one counts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean

from benchmarks import csv_tables
from benchmarks.console import parser, report, start
from benchmarks.fidelity_table import FidelityRow, fidelity_row, latest, markdown
from benchmarks.suites import MACHINES, MIXES, SETTINGS, compression_of, mix_text
from benchmarks.ways.comparisons import COARSE, OTHERS, PROXY, Comparison, Weighted, comparisons, plans
from statsnet.environment import fingerprint
from statsnet.evaluation.factors import Rounds, known_well
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.engine import Pool
from statsnet.measure.fleet import pool_of
from statsnet.measure.process import measuring_environment
from statsnet.measure.ray_cluster import connected
from statsnet.measure.ray_engine import RayEngine
from statsnet.measure.rounds_log import RoundsLog, Subject, measure_until_known
from statsnet.signatures.intervals import Interval, Member, latency_with_ci, paired_mean_factor, paired_ratio
from statsnet.synthesis.bench.machine_speed import reference_network
from statsnet.workloads.settings import BASELINE, Setting, parse_settings


def main() -> None:
    options = _options()
    if options.kept:
        print_kept(options.kept, options.mixes, options.settings)
        return
    with pooled(options.engine) as pool:
        compare(options, pool)


@contextmanager
def pooled(engine: str | None) -> Iterator[Pool | None]:
    """The nodes of the Ray cluster with this name that most others are like; None for this machine."""
    if engine is None:
        yield None
        return
    with connected(engine) as cluster:
        source = reference_network("inference", "float32")
        yield pool_of(RayEngine(cluster, _note), "cpu", source, note=_note, report=report)


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def compare(options: argparse.Namespace, pool: Pool | None) -> None:
    """Make and measure what is missing; write and print the table."""
    settings = parse_settings(options.settings or SETTINGS)
    here = pool.environment if pool else measuring_environment()
    log = RoundsLog(options.proxies / "times.jsonl", here=fingerprint(here))
    cache = MeasurementCache()
    compared: list[Comparison] = []
    for mode in options.modes.split(","):
        for mix in options.mixes or MIXES.values():
            ways = options.ways if mix in options.others else []
            for compression in options.compressions:
                compared += comparisons(
                    mix, mode, compression, options.proxies, ways=ways, cache=cache, report=report, pool=pool
                )
    rounds = Rounds(fewest=options.rounds, most=options.most_rounds)
    first = Rounds(fewest=min(1, rounds.most), most=min(1, rounds.most))
    measure(log, compared, settings, first, options.most_suite_rounds, pool)  # tells who fails where

    def remake(mix: str, comparison: Comparison) -> Comparison:
        made = comparisons(
            mix, comparison.mode, comparison.compression, options.proxies,
            ways=[] if comparison.way == PROXY else [comparison.way], cache=cache, report=report, pool=pool,
        )  # fmt: skip
        return made[-1]

    planned = [plan for c in compared for plan in plans(log, c, settings, remake)]
    for under in {plan.names: plan.settings for plan in planned}.values():
        together = [plan.comparison for plan in planned if plan.settings == under]
        measure(log, together, under, rounds, options.most_suite_rounds, pool)
    rows, failed = [], []
    for plan in planned:
        for setting in plan.settings:
            if why := why_failed(log, plan.comparison, setting):
                failed.append(why)
            else:
                rows.append(row_of(log, plan.comparison, setting))
    csv_tables.write(options.output, FidelityRow, rows, environment=here)
    print("\n".join([markdown(rows), "", *failed]))


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--kept", nargs="+", type=Path, metavar="FILE", help="print these tables, measure nothing")
    options.add_argument("--modes", default="inference,training")
    options.add_argument("--mixes", nargs="+", type=mix_text, metavar="MIX", help="default: the six of suites.py")
    options.add_argument("--others", nargs="+", type=mix_text, default=(), metavar="MIX", help="with baselines too")
    options.add_argument("--ways", type=_ways, default=list(OTHERS), metavar="WAY,...", help="of these, some alone")
    options.add_argument("--settings", help=f"default: {SETTINGS}")
    options.add_argument(
        "--compressions", type=_compressions, default=[None], metavar="N,...", help="or usual, the default"
    )
    options.add_argument("--rounds", type=int, default=2, help="of every subject in every setting, at least")
    options.add_argument("--most-rounds", type=int, default=8)
    options.add_argument("--most-suite-rounds", type=int, default=8, help="of the workloads, which take longest")
    options.add_argument("--proxies", type=Path, default=Path("build/fidelity"), help="what is made and measured")
    options.add_argument("--engine", metavar="ray[://HOST:PORT]", help="on a cluster's nodes of one environment")
    options.add_argument("-o", "--output", type=Path, default=Path("build/fidelity/fidelity.csv"))
    chosen = options.parse_args()
    mixes = chosen.mixes or MIXES.values()
    if strangers := [mix for mix in chosen.others if mix not in mixes]:
        options.error(f"'{strangers[0]}' is not among --mixes")
    return chosen


def _ways(text: str) -> list[str]:
    named = text.split(",")
    known = (*OTHERS, COARSE)
    if unknown := [name for name in named if name not in known]:
        raise argparse.ArgumentTypeError(f"no way is called '{unknown[0]}'; there are {', '.join(known)}")
    return named


def _compressions(text: str) -> list[float | None]:
    return [compression_of(number) for number in text.split(",")]


def print_kept(files: Sequence[Path], mixes: Sequence[str] | None, settings: str | None) -> None:
    """The latest rows of the files; those of some mixes and settings alone, if these are given."""
    rows = [
        row
        for row in latest(csv_tables.read(path, FidelityRow) for path in files)
        if (mixes is None or row.mix in mixes) and (settings is None or row.setting in settings.split(","))
    ]
    if not rows:
        raise SystemExit("the files hold nothing of these mixes and settings")
    for folder in dict.fromkeys(path.resolve().parent.name for path in files):
        if folder in MACHINES:
            print(f"Measured on {MACHINES[folder]}\n")
    print(markdown(rows))


def measure(
    log: RoundsLog,
    compared: Sequence[Comparison],
    settings: Sequence[Setting],
    rounds: Rounds,
    most_suite_rounds: int,
    pool: Pool | None = None,
) -> None:
    """Every subject in every setting, until its factors are known or `rounds` are over; into the log."""
    suites = {s.identity for c in compared for _, s in c.suite}

    def may_run_on(subject: Subject, setting: Setting) -> bool:
        return subject.identity not in suites or log.tried(subject, setting) < most_suite_rounds

    def uncertain() -> set[tuple[str, str]]:
        pairs: set[tuple[str, str]] = set()
        for comparison in compared:
            for side in (comparison.suite, comparison.stand_in):
                for setting in settings:
                    if any(log.failed(s, setting) for _, s in side):
                        continue
                    if not known_well([_factor(log, side, setting)]):
                        pairs |= {(s.identity, setting.name) for _, s in side if may_run_on(s, setting)}
        return pairs

    subjects = list({s.identity: s for c in compared for s in c.subjects()}.values())
    measure_until_known(
        log, subjects, settings,
        fewest=rounds.fewest, most=rounds.most, uncertain=uncertain, pool=pool, report=report,
    )  # fmt: skip


def _factor(log: RoundsLog, weighted: Sequence[Weighted], setting: Setting, rounds: slice = slice(None)) -> Interval:
    """The weighted sum of T(setting) / T(baseline)."""
    members = []
    for weight, subject in weighted:
        before, after = log.pairs(subject, setting, rounds)
        members.append(Member(rate=weight, a=before, b=after))
    return paired_mean_factor(members)


def why_failed(log: RoundsLog, comparison: Comparison, setting: Setting) -> str | None:
    """Why there is no row for a setting: one of the subjects does not run there."""
    causes = (log.failed(subject, setting) for subject in comparison.subjects())
    if why := next(filter(None, causes), None):
        return f"{comparison.mix} {comparison.mode}, {comparison.way}: {why}"
    return None


def row_of(log: RoundsLog, comparison: Comparison, setting: Setting) -> FidelityRow:
    """From what the log holds: at least one group of each subject."""
    sides = (comparison.suite, comparison.stand_in)
    suite_rounds, rounds = (min(log.tried(s, setting) for _, s in side) for side in sides)
    noise = None
    if suite_rounds > 1:
        halves = [_factor(log, comparison.suite, setting, slice(i, None, 2)).value for i in (0, 1)]
        noise = abs(halves[1] / halves[0] - 1.0)
    suite_s, step_s = (_step_s(log, side) for side in sides)
    suite_generated, generated = (_generated_share(log, side, setting) for side in sides)
    return fidelity_row(
        *(_factor(log, side, setting) for side in sides),
        suite_noise=noise,
        mix=comparison.mix,
        mode=comparison.mode,
        way=comparison.way,
        wanted_compression=comparison.compression,
        setting=setting.name,
        step_latency_s=step_s,
        compression=suite_s / step_s,
        suite_generated_share=suite_generated,
        proxy_generated_share=generated,
        suite_rounds=suite_rounds,
        proxy_rounds=rounds,
    )


def _generated_share(log: RoundsLog, weighted: Sequence[Weighted], setting: Setting) -> float | None:
    """The share of the time under the setting in kernels that a compiler generated; None where it is not known."""
    times, generated = 0.0, 0.0
    for weight, subject in weighted:
        after = log.of(subject, setting)
        shares = [timing.generated_share for timing in after if timing.generated_share is not None]
        if not shares:
            return None
        factor = paired_ratio(*log.pairs(subject, setting)).value
        times += weight * factor
        generated += weight * factor * fmean(shares)
    return generated / times


def _step_s(log: RoundsLog, weighted: Sequence[Weighted]) -> float:
    """The time of one step of each, one after the other."""
    return sum(latency_with_ci(log.of(subject, BASELINE)).value for _, subject in weighted)


if __name__ == "__main__":
    start(main)
