"""Fidelity: does a proxy's time change by the suite's factor when settings change?

    python benchmarks/fidelity.py [--mixes MIX ...] [--modes inference,training] [--settings ...] [--compressions 100]
                                  [--others MIX ...] [--ablations MIX ...] [--ways NAME,...] [--rounds 2]
                                  [--most-rounds 8] [--fresh]

For each mix, mode and compression a proxy is synthesized here, or taken from --proxies where it lies there from a run
before; for the mixes of --others also what else may stand for them (baselines.py), for those of --ablations the method
with a part taken out (ablations.py); --ways names some of both, or the best of a search. Then every workload and every
network runs in fresh processes, one for the baseline and one for each setting, which take turns (in_turn.py); a
workload's run serves all mixes that it belongs to. After --rounds, rounds go on for those whose 95 % interval of ln F
has a half-width over 1.5 %, up to --most-rounds. Every group of processes is written to times.jsonl at once: started
again, the benchmark goes on where it was stopped, and with --rounds 0 --most-rounds 0 it only adds up; with --fresh,
what was measured since its first start (kept in `began`) is fresh. Run nothing else meanwhile.

Suite factor F_S(e) = Σ w_i T_i(e) / T_i(e0), proxy factor F_P(e) = T_P(e) / T_P(e0), error F_P / F_S − 1. The suite's
noise is its factor from the odd rounds against that from the even ones.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import tables
from ablations import ABLATIONS
from contests import OTHERS, VARIANTS, Contest, Weighted, contests
from core import MIXES
from timings import Subject, Timings, results_file, run_rounds

from statsnet.evaluation.factors import interval_dict, known_well, relative_error
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.process import measuring_environment
from statsnet.signatures.canonical import write_json_atomically
from statsnet.signatures.intervals import Interval, Member, latency_with_ci, paired_ratio, paired_suite_factor
from statsnet.workloads.settings import BASELINE, Setting, parse_settings

SETTINGS = "threads=1,onednn=sse41,mkl=compatible,aten=default,dtype=bfloat16"
COMPRESSIONS = "100"


def main() -> None:
    options = _options()
    output = options.output or results_file("fidelity.json")
    settings = parse_settings(options.settings)
    timings = Timings(options.proxies / "times.jsonl")
    cache = MeasurementCache(fresh_since_ns=_first_run_ns(options.proxies) if options.fresh else None)
    found: list[Contest] = []
    for mode in options.modes.split(","):
        for mix in options.mixes:
            ways = [
                *(OTHERS if mix in options.others else ()),
                *(VARIANTS if mix in options.ablations else ()),
            ]
            ways = [way for way in ways if way in options.ways]
            for compression in options.compressions:
                found += contests(mix, mode, compression, options.proxies, ways=ways, say=_say, cache=cache)
    _measure(timings, found, settings, options)
    failed = {
        (i, e.name): why for i, c in enumerate(found) for e in settings if (why := _failed(timings, c, e))
    }
    rows = [_row(timings, c, e) for i, c in enumerate(found) for e in settings if (i, e.name) not in failed]
    report = {
        "environment": measuring_environment(),
        "settings": options.settings,
        "rows": rows,
        "failed": [*failed.values()],
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    write_json_atomically(output, report)
    print(tables.document(rows))
    for line in failed.values():
        print(line)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--modes", default="inference,training")
    parser.add_argument("--mixes", nargs="*", default=list(MIXES))
    parser.add_argument(
        "--others", nargs="*", default=list(MIXES[:2]), help="mixes for which other ways are measured too"
    )
    parser.add_argument(
        "--ablations", nargs="*", default=list(MIXES[:1]), help="and those for which ours is taken apart"
    )
    parser.add_argument(
        "--ways",
        type=_ways,
        default=(*OTHERS, *ABLATIONS),
        help="of both; 'searched' too, which takes longest",
    )
    parser.add_argument("--settings", default=SETTINGS)
    parser.add_argument("--compressions", type=_compressions, default=COMPRESSIONS)
    parser.add_argument("--rounds", type=int, default=2, help="of every subject in every setting, at least")
    parser.add_argument("--most-rounds", type=int, default=8)
    parser.add_argument(
        "--most-suite-rounds", type=int, default=8, help="of the workloads, which take longest"
    )
    parser.add_argument("--fresh", action="store_true", help="make proxies from profiles of this hour")
    parser.add_argument("--proxies", type=Path, default=Path("build/fidelity"))
    parser.add_argument("-o", "--output", type=Path, help="benchmarks/results/<environment>/fidelity.json")
    return parser.parse_args()


def _ways(text: str) -> list[str]:
    named = text.split(",")
    if unknown := [name for name in named if name not in (*OTHERS, *VARIANTS)]:
        known = ", ".join((*OTHERS, *VARIANTS))
        raise argparse.ArgumentTypeError(f"no way is called '{unknown[0]}'; there are {known}")
    return named


def _compressions(text: str) -> list[float]:
    return [float(number) for number in text.split(",")]


def _first_run_ns(proxies: Path) -> int:
    """When this run was first started: started again, it goes on with what was measured since."""
    kept = proxies / "began"
    if not kept.exists():
        kept.write_text(f"{time.time_ns()}\n", encoding="utf-8")
    return int(kept.read_text(encoding="utf-8"))


def _measure(
    timings: Timings, found: list[Contest], settings: list[Setting], options: argparse.Namespace
) -> None:
    suites = {s.identity for c in found for _, s in c.suite}

    def may_run_on(subject: Subject, setting: Setting) -> bool:
        done = len(timings.of(subject, setting))
        return subject.identity not in suites or done < options.most_suite_rounds

    def uncertain() -> set[tuple[str, str]]:
        pairs: set[tuple[str, str]] = set()
        for contest in found:
            for side in (contest.suite, contest.stand_in):
                for setting in settings:
                    if any(timings.failed(s, setting) for _, s in side):
                        continue
                    if not known_well([_factor(timings, side, setting)]):
                        pairs |= {(s.identity, setting.name) for _, s in side if may_run_on(s, setting)}
        return pairs

    run_rounds(
        timings,
        list({s.identity: s for c in found for s in c.subjects()}.values()),
        settings,
        fewest=options.rounds,
        most=options.most_rounds,
        uncertain=uncertain,
        say=_say,
    )


def _factor(
    timings: Timings, weighted: Sequence[Weighted], setting: Setting, rounds: slice = slice(None)
) -> Interval:
    """Σ w T(e) / T(e0)."""
    members = []
    for weight, subject in weighted:
        before, after = timings.pairs(subject, setting, rounds)
        members.append(Member(rate=weight, a=before, b=after))
    return paired_suite_factor(members)


def _failed(timings: Timings, contest: Contest, setting: Setting) -> str | None:
    """Why a contest cannot be held in a setting, where one of its subjects does not run there."""
    causes = (timings.failed(subject, setting) for subject in contest.subjects())
    if why := next(filter(None, causes), None):
        return f"{contest.mix} {contest.mode}, {contest.method}: {why}"
    return None


def _row(timings: Timings, contest: Contest, setting: Setting) -> dict[str, Any]:
    suite, stand_in = (_factor(timings, side, setting) for side in (contest.suite, contest.stand_in))
    error = relative_error(suite, stand_in)
    rounds = [min(len(timings.of(s, setting)) for _, s in side) for side in (contest.suite, contest.stand_in)]
    noise = None
    if rounds[0] > 1:
        halves = [_factor(timings, contest.suite, setting, slice(i, None, 2)).value for i in (0, 1)]
        noise = abs(halves[1] / halves[0] - 1.0)
    nearest = _nearest(error)
    return {
        "mix": contest.mix,
        "mode": contest.mode,
        "method": contest.method,
        "wanted_compression": contest.compression,
        "setting": setting.name,
        "step_latency_s": _step_s(timings, contest.stand_in),
        "compression": _step_s(timings, contest.suite) / _step_s(timings, contest.stand_in),
        "suite_factor": interval_dict(suite),
        "factor": interval_dict(stand_in),
        "error": interval_dict(error),
        "suite_noise": noise,
        "least_error": 0.0 if noise is not None and nearest <= 2 * noise else nearest,
        "generated_share": [
            _generated_share(timings, side, setting) for side in (contest.suite, contest.stand_in)
        ],
        "rounds": rounds,
        "members": {s.label: paired_ratio(*timings.pairs(s, setting)).value for _, s in contest.suite},
    }


def _generated_share(timings: Timings, weighted: Sequence[Weighted], setting: Setting) -> float | None:
    """Of the time under the setting, in kernels that a compiler generated."""
    times, generated = 0.0, 0.0
    for weight, subject in weighted:
        after = timings.of(subject, setting)
        shares = [p["generated_share"] for p in after if "generated_share" in p]
        if not shares:
            return None
        factor = paired_ratio(*timings.pairs(subject, setting)).value
        times += weight * factor
        generated += weight * factor * fmean(shares)
    return generated / times


def _step_s(timings: Timings, weighted: Sequence[Weighted]) -> float:
    """One step of each, one after the other."""
    return sum(latency_with_ci(timings.of(subject, BASELINE)).value for _, subject in weighted)


def _nearest(error: Interval) -> float:
    """The smallest error that the interval allows."""
    if error.low is None or error.high is None:
        return abs(error.value)
    return 0.0 if error.low <= 0.0 <= error.high else min(abs(error.low), abs(error.high))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
