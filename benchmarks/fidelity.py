"""Fidelity: does a proxy's time change by the suite's factor when settings change?

    python benchmarks/fidelity.py [--modes inference,training] [--mixes MIX ...] [--settings ...] [--baselines]

For each mix and mode a proxy is synthesized here, or taken from --proxies where it lies there from a run before. Then
every workload and every proxy runs in fresh processes, in turn, at the baseline and in each setting; a workload's run
serves all mixes that it belongs to. After --rounds, rounds go on for those whose 95 % interval of ln F has a half-width
over 1.5 %, up to --most-rounds. Every process is written to times.jsonl at once: started again, the benchmark goes on
where it was stopped. Run nothing else meanwhile.

Suite factor F_S(e) = Σ w_i T_i(e) / T_i(e0), proxy factor F_P(e) = T_P(e) / T_P(e0), error F_P / F_S − 1. The suite's
noise is its factor from the odd rounds against that from the even ones. With --baselines the mixes' other stand-ins
(baselines.py) run too.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from baselines import NETWORKS, representatives, write_network
from timings import Subject, Timings, run_rounds

from statsnet.cli.synthesize import mix_slug
from statsnet.running.child import measuring_environment
from statsnet.running.fidelity import interval_dict, known_well, relative_error
from statsnet.running.proxy_folder import open_proxy
from statsnet.running.settings import BASELINE, Setting, parse_settings
from statsnet.running.statistics import Interval, Member, latency_with_ci, ratio_with_ci, suite_factor
from statsnet.running.suite import SuiteMember, suite_of
from statsnet.signatures.canonical import write_json_atomically
from statsnet.synthesis.spec import write_proxy
from statsnet.synthesis.synthesize import prepare, synthesize

MIXES = ("recsys:0.5,cv:0.5", "cv:1", "nlp:0.7,recsys:0.3", "cv:1,nlp:1,recsys:1,speech:1")
LIMITS = {"min_time_s": 0.5, "max_time_s": 8.0}
MEDIAN_BAR, TAIL_BAR = 0.03, 0.10
REPRESENTATIVES = 3
"""Workloads in the subset that stands for a suite; AIBench takes 3 of 17."""

Weighted = tuple[float, Subject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A suite, and one way to stand for it: subjects with their weights."""

    mix: str
    mode: str
    method: str
    suite: Sequence[Weighted]
    stand_in: Sequence[Weighted]

    def subjects(self) -> Iterable[Subject]:
        return (subject for _, subject in (*self.suite, *self.stand_in))


def main() -> None:
    options = _options()
    settings = parse_settings(options.settings)
    timings = Timings(options.proxies / "times.jsonl")
    rows: list[dict[str, Any]] = []
    for mode in options.modes.split(","):
        contests = [
            c for mix in options.mixes for c in _contests(mix, mode, options.proxies, options.baselines)
        ]
        _measure(timings, contests, settings, options)
        rows += [_row(timings, c, s) for c in contests for s in settings]
        report = {"environment": measuring_environment(), "settings": options.settings, "rows": rows}
        options.output.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomically(options.output, report)
    _print(rows)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--modes", default="inference,training")
    parser.add_argument("--mixes", nargs="*", default=list(MIXES))
    parser.add_argument("--settings", default="threads=1,onednn=sse41,mkl=compatible")
    parser.add_argument("--rounds", type=int, default=2, help="of every subject in every setting, at least")
    parser.add_argument("--most-rounds", type=int, default=8)
    parser.add_argument(
        "--most-suite-rounds", type=int, default=8, help="of the workloads, which take longest"
    )
    parser.add_argument(
        "--baselines", action="store_true", help="measure other ways to stand for the mixes too"
    )
    parser.add_argument("--proxies", type=Path, default=Path("build/fidelity"))
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/fidelity.json"))
    return parser.parse_args()


def _contests(mix: str, mode: str, proxies: Path, baselines: bool) -> list[Contest]:
    """A mix's proxy, made now where it is not there yet, and, where wanted, what else may stand for its suite."""
    folder = proxies / f"{mix_slug(mix)}.{mode}"
    if not folder.exists():
        _say(f"making the proxy of {mix}, {mode}")
        write_proxy(synthesize(mix, mode=mode), folder, mix_text=mix)
    spec = open_proxy(folder).spec
    members = suite_of(spec)
    suite = [(m.weight, _member(m, spec)) for m in members]
    stand_ins = {"statsnet": [(1.0, _network(folder, f"{mode} {mix}, statsnet"))]}
    if baselines:
        known = [(m.signature, m.weight, s) for m, (_, s) in zip(members, suite, strict=True) if m.signature]
        signatures, weights, subjects = zip(*known, strict=True)
        chosen = representatives(signatures, weights, min(REPRESENTATIVES, len(known)))
        stand_ins["subset"] = [(weight, subjects[i]) for i, weight in chosen.items()]
        stand_ins |= {n: [(1.0, _baseline(n, mix, mode, proxies))] for n in NETWORKS}
    return [
        Contest(mix=mix, mode=mode, method=method, suite=suite, stand_in=stand_in)
        for method, stand_in in stand_ins.items()
    ]


def _baseline(method: str, mix: str, mode: str, proxies: Path) -> Subject:
    folder = proxies / f"{mix_slug(mix)}.{mode}.{method}"
    if not (folder / "network.py").exists():
        problem = prepare(mix, mode=mode)
        write_network(problem, NETWORKS[method](problem), folder, f"Baseline '{method}' for {mix}")
    return _network(folder, f"{mode} {mix}, {method}")


def _network(folder: Path, label: str) -> Subject:
    digest = hashlib.sha256((folder / "network.py").read_bytes()).hexdigest()
    job = {"kind": "time_proxy", "folder": str(folder.resolve()), "network_sha256": digest, "device": "cpu"}
    return Subject(
        identity=digest, label=label, job=lambda setting: {**job, **LIMITS, "setting": setting.to_dict()}
    )


def _member(member: SuiteMember, spec: dict[str, Any]) -> Subject:
    name = f"{spec['mode']} {member.name}"
    return Subject(
        identity=name, label=name, job=lambda setting: member.timing_job(spec, "cpu", setting, **LIMITS)
    )


def _measure(
    timings: Timings, contests: list[Contest], settings: list[Setting], options: argparse.Namespace
) -> None:
    suites = {s.identity for c in contests for _, s in c.suite}

    def may_run_on(subject: Subject, setting: Setting) -> bool:
        done = len(timings.of(subject, setting))
        return subject.identity not in suites or done < options.most_suite_rounds

    def uncertain() -> set[tuple[str, str]]:
        found: set[tuple[str, str]] = set()
        for contest in contests:
            for side in (contest.suite, contest.stand_in):
                for setting in settings:
                    if not known_well([_factor(timings, side, setting)]):
                        pairs = [(s, e) for _, s in side for e in (BASELINE, setting)]
                        found |= {(s.identity, e.name) for s, e in pairs if may_run_on(s, e)}
        return found

    run_rounds(
        timings,
        list({s.identity: s for c in contests for s in c.subjects()}.values()),
        [BASELINE, *settings],
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
        a, b = timings.of(subject, BASELINE)[rounds], timings.of(subject, setting)[rounds]
        members.append(Member(rate=weight / latency_with_ci(a).value, a=a, b=b))
    return suite_factor(members)


def _row(timings: Timings, contest: Contest, setting: Setting) -> dict[str, Any]:
    suite, stand_in = (_factor(timings, side, setting) for side in (contest.suite, contest.stand_in))
    error = relative_error(suite, stand_in)
    rounds = [
        min(len(timings.of(s, e)) for _, s in side for e in (BASELINE, setting))
        for side in (contest.suite, contest.stand_in)
    ]
    noise = None
    if rounds[0] > 1:
        halves = [_factor(timings, contest.suite, setting, slice(i, None, 2)).value for i in (0, 1)]
        noise = abs(halves[1] / halves[0] - 1.0)
    nearest = _nearest(error)
    return {
        "mix": contest.mix,
        "mode": contest.mode,
        "method": contest.method,
        "setting": setting.name,
        "step_latency_s": _step_s(timings, contest.stand_in),
        "compression": _step_s(timings, contest.suite) / _step_s(timings, contest.stand_in),
        "suite_factor": interval_dict(suite),
        "factor": interval_dict(stand_in),
        "error": interval_dict(error),
        "suite_noise": noise,
        "met": nearest <= MEDIAN_BAR or (noise is not None and nearest <= 2 * noise),
        "rounds": rounds,
        "members": {
            s.label: ratio_with_ci(timings.of(s, BASELINE), timings.of(s, setting)).value
            for _, s in contest.suite
        },
    }


def _step_s(timings: Timings, weighted: Sequence[Weighted]) -> float:
    """One step of each, one after the other."""
    return sum(latency_with_ci(timings.of(subject, BASELINE)).value for _, subject in weighted)


def _nearest(error: Interval) -> float:
    """The smallest error that the interval allows."""
    if error.low is None or error.high is None:
        return abs(error.value)
    return 0.0 if error.low <= 0.0 <= error.high else min(abs(error.low), abs(error.high))


def _print(rows: list[dict[str, Any]]) -> None:
    print(
        f"{'mode':9} {'mix':29} {'method':10} {'setting':15} {'suite':>12} {'stand-in':>12} {'error':>7}  "
        f"{'95 %':18} {'noise':>5} {'shorter':>7}"
    )
    for row in rows:
        error = row["error"]
        interval = "" if error["low"] is None else f"[{error['low']:+.1%}, {error['high']:+.1%}]"
        noise = "" if row["suite_noise"] is None else f"{row['suite_noise']:.1%}"
        print(
            f"{row['mode']:9} {row['mix']:29} {row['method']:10} {row['setting']:15} "
            f"{_text(row['suite_factor']):>12} {_text(row['factor']):>12} {error['value']:>+7.1%}  {interval:18} "
            f"{noise:>5} {row['compression']:>7.1f}"
        )
    for mode, method in dict.fromkeys((row["mode"], row["method"]) for row in rows):
        found = [row for row in rows if (row["mode"], row["method"]) == (mode, method)]
        errors = np.array([abs(row["error"]["value"]) for row in found])
        print(
            f"{mode}, {method}: median error {np.median(errors):.1%} (bar {MEDIAN_BAR:.0%}), 95th percentile "
            f"{np.percentile(errors, 95):.1%} (bar {TAIL_BAR:.0%}), mean {errors.mean():.1%}, worst {errors.max():.1%};"
            f" {sum(row['met'] for row in found)} of {len(found)} under {MEDIAN_BAR:.0%}, or twice the suite's noise, "
            f"within their interval"
        )


def _text(interval: dict[str, float | None]) -> str:
    value, low, high = interval["value"], interval["low"], interval["high"]
    assert value is not None
    if low is None or high is None:
        return f"{value:.2f}"
    return f"{value:.2f} ±{50 * math.log(high / low):.1f}%"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
