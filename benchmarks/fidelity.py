"""Fidelity: does a proxy's time change by the suite's factor when settings change?

    python benchmarks/fidelity.py [--mixes MIX ...] [--modes inference,training] [--settings ...] [--compressions 100]
                                  [--others MIX ...] [--ablations MIX ...] [--ways NAME,...] [--rounds 2]
                                  [--most-rounds 8] [--fresh]

For each mix, mode and compression a proxy is made here, unless --proxies holds one from a run before. For the mixes of
--others, other networks that may stand for them are made too (baselines.py); for those of --ablations, the proxy's
method with a part taken out (ablations.py). --ways names some of both, or the best of a search.

Then every workload and every network runs in fresh processes, one for the baseline and one for each setting, which take
turns (statsnet/measure/side_by_side.py). A workload's run serves all mixes that it belongs to. After --rounds, rounds
go on for those whose 95 % interval of ln F has a half-width over 1.5 %, up to --most-rounds. Every group of processes
is written to times.jsonl at once: started again, the benchmark goes on where it was stopped. With --rounds 0
--most-rounds 0 it only adds up. With --fresh, only what was measured since its first start (kept in `began`) is used to
make proxies. Run nothing else meanwhile.

Suite factor F_S(e) = Σ w_i T_i(e) / T_i(e0), proxy factor F_P(e) = T_P(e) / T_P(e0), error F_P / F_S − 1. The suite's
noise compares its factor from the odd rounds with that from the even ones.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import tables
from ablations import ABLATIONS
from contests import OTHERS, VARIANTS, Contest, Weighted, contests
from core import MIXES, report, results_file

from statsnet.evaluation.factors import Rounds, known_well, relative_error
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.process import measuring_environment
from statsnet.measure.rounds_log import RoundsLog, Subject, measure_until_known
from statsnet.signatures.canonical import write_json_atomically
from statsnet.signatures.intervals import Interval, Member, latency_with_ci, paired_ratio, paired_suite_factor
from statsnet.workloads.settings import BASELINE, Setting, parse_settings

SETTINGS = "threads=1,onednn=sse41,mkl=compatible,aten=default,dtype=bfloat16"
COMPRESSIONS = "100"


def main() -> None:
    options = _options()
    output = options.output or results_file("fidelity.json")
    settings = parse_settings(options.settings)
    log = RoundsLog(options.proxies / "times.jsonl")
    cache = MeasurementCache(fresh_since_ns=_first_run_ns(options.proxies) if options.fresh else None)
    held: list[Contest] = []
    for mode in options.modes.split(","):
        for mix in options.mixes:
            ways = [
                *(OTHERS if mix in options.others else ()),
                *(VARIANTS if mix in options.ablations else ()),
            ]
            ways = [way for way in ways if way in options.ways]
            for compression in options.compressions:
                held += contests(mix, mode, compression, options.proxies, ways=ways, cache=cache, report=report)
    rounds = Rounds(fewest=options.rounds, most=options.most_rounds)
    _measure(log, held, settings, rounds, options.most_suite_rounds)
    failed = {(i, e.name): why for i, c in enumerate(held) for e in settings if (why := _failed(log, c, e))}
    rows = [_row(log, c, e) for i, c in enumerate(held) for e in settings if (i, e.name) not in failed]
    document = {
        "environment": measuring_environment(),
        "settings": options.settings,
        "rows": rows,
        "failed": [*failed.values()],
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    write_json_atomically(output, document)
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
    parser.add_argument("--most-suite-rounds", type=int, default=8, help="of the workloads, which take longest")
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
    """When this run was first started. Started again, it goes on with what was measured since then."""
    kept = proxies / "began"
    if not kept.exists():
        kept.write_text(f"{time.time_ns()}\n", encoding="utf-8")
    return int(kept.read_text(encoding="utf-8"))


def _measure(
    log: RoundsLog,
    held: Sequence[Contest],
    settings: Sequence[Setting],
    rounds: Rounds,
    most_suite_rounds: int,
) -> None:
    suites = {s.identity for c in held for _, s in c.suite}

    def may_run_on(subject: Subject, setting: Setting) -> bool:
        return subject.identity not in suites or log.tried(subject, setting) < most_suite_rounds

    def uncertain() -> set[tuple[str, str]]:
        pairs: set[tuple[str, str]] = set()
        for contest in held:
            for side in (contest.suite, contest.stand_in):
                for setting in settings:
                    if any(log.failed(s, setting) for _, s in side):
                        continue
                    if not known_well([_factor(log, side, setting)]):
                        pairs |= {(s.identity, setting.name) for _, s in side if may_run_on(s, setting)}
        return pairs

    subjects = list({s.identity: s for c in held for s in c.subjects()}.values())
    measure_until_known(
        log,
        subjects,
        settings,
        fewest=rounds.fewest,
        most=rounds.most,
        uncertain=uncertain,
        report=report,
    )


def _factor(log: RoundsLog, weighted: Sequence[Weighted], setting: Setting, rounds: slice = slice(None)) -> Interval:
    """Σ w T(e) / T(e0)."""
    members = []
    for weight, subject in weighted:
        before, after = log.pairs(subject, setting, rounds)
        members.append(Member(rate=weight, a=before, b=after))
    return paired_suite_factor(members)


def _failed(log: RoundsLog, contest: Contest, setting: Setting) -> str | None:
    """Why a contest cannot be held in a setting: one of its subjects does not run there."""
    causes = (log.failed(subject, setting) for subject in contest.subjects())
    if why := next(filter(None, causes), None):
        return f"{contest.mix} {contest.mode}, {contest.method}: {why}"
    return None


def _row(log: RoundsLog, contest: Contest, setting: Setting) -> dict[str, Any]:
    suite, stand_in = (_factor(log, side, setting) for side in (contest.suite, contest.stand_in))
    error = relative_error(suite, stand_in)
    rounds = [min(log.tried(s, setting) for _, s in side) for side in (contest.suite, contest.stand_in)]
    noise = None
    if rounds[0] > 1:
        halves = [_factor(log, contest.suite, setting, slice(i, None, 2)).value for i in (0, 1)]
        noise = abs(halves[1] / halves[0] - 1.0)
    nearest = _nearest(error)
    return {
        "mix": contest.mix,
        "mode": contest.mode,
        "method": contest.method,
        "wanted_compression": contest.compression,
        "setting": setting.name,
        "step_latency_s": _step_s(log, contest.stand_in),
        "compression": _step_s(log, contest.suite) / _step_s(log, contest.stand_in),
        "suite_factor": asdict(suite),
        "factor": asdict(stand_in),
        "error": asdict(error),
        "suite_noise": noise,
        "least_error": 0.0 if noise is not None and nearest <= 2 * noise else nearest,
        "generated_share": [_generated_share(log, side, setting) for side in (contest.suite, contest.stand_in)],
        "rounds": rounds,
        "members": {s.label: paired_ratio(*log.pairs(s, setting)).value for _, s in contest.suite},
    }


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


def _nearest(error: Interval) -> float:
    """The smallest error that the interval allows."""
    if error.low is None or error.high is None:
        return abs(error.value)
    return 0.0 if error.low <= 0.0 <= error.high else min(abs(error.low), abs(error.high))


if __name__ == "__main__":
    main()
