"""Fidelity: does a proxy's time change by the suite's factor when settings change?

    python benchmarks/fidelity.py [--modes inference,training] [--mixes MIX ...] [--settings ...] [--proxies DIR]

For each mix and mode a proxy is synthesized here, or taken from DIR where it lies there from a run before. Then every
workload and every proxy runs in fresh processes, in turn, at the baseline and in each setting; a workload's run serves
all mixes that it belongs to. Rounds go on until the half-width of the 95 % interval of ln F is under 1.5 % for suite
and proxy, or --most-rounds have run. Every process is written to DIR/times.jsonl at once: started again, the benchmark
goes on where it was stopped. Run nothing else meanwhile.

Suite factor F_S(e) = Σ w_i T_i(e) / T_i(e0), proxy factor F_P(e) = T_P(e) / T_P(e0), error F_P / F_S − 1. The suite's
noise is its factor from the odd rounds against that from the even ones.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from timings import Process, Subject, Timings, run_rounds

from statsnet.cli.synthesize import mix_slug
from statsnet.running.child import measuring_environment
from statsnet.running.fidelity import interval_dict, relative_error
from statsnet.running.proxy_folder import ProxyFolder, open_proxy
from statsnet.running.run import proxy_job
from statsnet.running.settings import BASELINE, Setting, parse_settings
from statsnet.running.statistics import Interval, Member, latency_with_ci, ratio_with_ci, suite_factor
from statsnet.running.suite import SuiteMember, suite_of
from statsnet.signatures.canonical import write_json_atomically
from statsnet.signatures.storage import load_document
from statsnet.synthesis.spec import write_proxy
from statsnet.synthesis.synthesize import synthesize

MIXES = ("recsys:0.5,cv:0.5", "cv:1", "nlp:0.7,recsys:0.3", "cv:1,nlp:1,recsys:1,speech:1")
HALF_WIDTH = 0.015
LIMITS = {"min_time_s": 0.5, "max_time_s": 8.0}
MEDIAN_BAR, TAIL_BAR = 0.03, 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """One proxy against its suite."""

    mix: str
    mode: str
    proxy: ProxyFolder
    members: list[tuple[SuiteMember, Subject]]
    subject: Subject

    def factors(
        self, timings: Timings, setting: Setting, rounds: slice = slice(None)
    ) -> tuple[Interval, Interval]:
        """Of the suite and of the proxy."""

        def pair(subject: Subject) -> tuple[list[Process], list[Process]]:
            return timings.of(subject, BASELINE)[rounds], timings.of(subject, setting)[rounds]

        members = []
        for member, subject in self.members:
            a, b = pair(subject)
            members.append(Member(rate=member.weight / latency_with_ci(a).value, a=a, b=b))
        return suite_factor(members), ratio_with_ci(*pair(self.subject))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--modes", default="inference,training")
    parser.add_argument("--mixes", nargs="*", default=list(MIXES))
    parser.add_argument("--settings", default="threads=1,onednn=sse41,mkl=compatible")
    parser.add_argument("--rounds", type=int, default=2, help="of every subject in every setting, at least")
    parser.add_argument("--most-rounds", type=int, default=8)
    parser.add_argument("--proxies", type=Path, default=Path("build/fidelity"))
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/fidelity.json"))
    options = parser.parse_args()
    settings = parse_settings(options.settings)
    timings = Timings(options.proxies / "times.jsonl")
    rows: list[dict[str, Any]] = []
    for mode in options.modes.split(","):
        contests = [_contest(mix, mode, options.proxies) for mix in options.mixes]
        _measure(timings, contests, settings, options.rounds, options.most_rounds)
        rows += [_row(timings, c, s) for c in contests for s in settings]
        report = {"environment": measuring_environment(), "settings": options.settings, "rows": rows}
        options.output.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomically(options.output, report)
    _print(rows)


def _contest(mix: str, mode: str, proxies: Path) -> Contest:
    """A mix's proxy, made now where it is not there yet, and its suite."""
    folder = proxies / f"{mix_slug(mix)}.{mode}"
    if not folder.exists():
        _say(f"making the proxy of {mix}, {mode}")
        write_proxy(synthesize(mix, mode=mode), folder, mix_text=mix)
    proxy = open_proxy(folder)
    return Contest(
        mix=mix,
        mode=mode,
        proxy=proxy,
        members=[(m, _member_subject(m, proxy.spec)) for m in suite_of(proxy.spec)],
        subject=Subject(
            identity=proxy.network_sha256,
            label=f"{mode}, proxy of {mix}",
            job=lambda setting: proxy_job(proxy, setting=setting, **LIMITS),
        ),
    )


def _member_subject(member: SuiteMember, spec: dict[str, Any]) -> Subject:
    name = f"{spec['mode']} {member.name}"
    return Subject(
        identity=name, label=name, job=lambda setting: member.timing_job(spec, "cpu", setting, **LIMITS)
    )


def _measure(
    timings: Timings, contests: list[Contest], settings: list[Setting], fewest: int, most: int
) -> None:
    subjects = {s.identity: s for c in contests for s in (*(s for _, s in c.members), c.subject)}

    def uncertain() -> set[tuple[str, str]]:
        found: set[tuple[str, str]] = set()
        for contest in contests:
            for setting in settings:
                suite, proxy = contest.factors(timings, setting)
                names = [s.identity for _, s in contest.members] if _half_width(suite) > HALF_WIDTH else []
                names += [contest.subject.identity] if _half_width(proxy) > HALF_WIDTH else []
                found |= {(name, e.name) for name in names for e in (BASELINE, setting)}
        return found

    run_rounds(
        timings,
        list(subjects.values()),
        [BASELINE, *settings],
        fewest=fewest,
        most=most,
        uncertain=uncertain,
        say=_say,
    )


def _half_width(factor: Interval) -> float:
    if factor.low is None or factor.high is None:
        return math.inf
    return math.log(factor.high / factor.low) / 2


def _row(timings: Timings, contest: Contest, setting: Setting) -> dict[str, Any]:
    suite, proxy = contest.factors(timings, setting)
    error = relative_error(suite, proxy)
    rounds = min(len(timings.of(s, e)) for _, s in contest.members for e in (BASELINE, setting))
    noise = None
    if rounds > 1:
        halves = [contest.factors(timings, setting, slice(i, None, 2))[0].value for i in (0, 1)]
        noise = abs(halves[1] / halves[0] - 1.0)
    nearest = _nearest(error)
    fit = load_document(contest.proxy.path / "fit.json", "statsnet.fit")["summary"]
    return {
        "mix": contest.mix,
        "mode": contest.mode,
        "setting": setting.name,
        "compression": fit["compression"],
        "suite_factor": interval_dict(suite),
        "proxy_factor": interval_dict(proxy),
        "error": interval_dict(error),
        "suite_noise": noise,
        "met": nearest <= MEDIAN_BAR or (noise is not None and nearest <= 2 * noise),
        "rounds": [rounds, len(timings.of(contest.subject, setting))],
        "members": {
            m.name: ratio_with_ci(timings.of(s, BASELINE), timings.of(s, setting)).value
            for m, s in contest.members
        },
    }


def _nearest(error: Interval) -> float:
    """The smallest error that the interval allows."""
    if error.low is None or error.high is None:
        return abs(error.value)
    return 0.0 if error.low <= 0.0 <= error.high else min(abs(error.low), abs(error.high))


def _print(rows: list[dict[str, Any]]) -> None:
    print(
        f"{'mode':10} {'mix':30} {'setting':16} {'suite':>12} {'proxy':>12} {'error':>7}  {'95 %':16} {'noise':>6}"
    )
    for row in rows:
        error = row["error"]
        interval = "" if error["low"] is None else f"[{error['low']:+.1%}, {error['high']:+.1%}]"
        noise = "" if row["suite_noise"] is None else f"{row['suite_noise']:.1%}"
        print(
            f"{row['mode']:10} {row['mix']:30} {row['setting']:16} {_factor(row['suite_factor']):>12} "
            f"{_factor(row['proxy_factor']):>12} {error['value']:>+7.1%}  {interval:16} {noise:>6}"
        )
    for mode in dict.fromkeys(row["mode"] for row in rows):
        found = [row for row in rows if row["mode"] == mode]
        errors = np.array([abs(row["error"]["value"]) for row in found])
        print(
            f"{mode}: median error {np.median(errors):.1%}, 95th percentile {np.percentile(errors, 95):.1%}, "
            f"mean {errors.mean():.1%}, worst {errors.max():.1%}; {sum(row['met'] for row in found)} of {len(found)} "
            f"within {MEDIAN_BAR:.0%} or twice the suite's noise by their interval"
        )


def _factor(interval: dict[str, float | None]) -> str:
    value, low, high = interval["value"], interval["low"], interval["high"]
    if low is None or high is None:
        return f"{value:.2f}"
    return f"{value:.2f} ±{50 * math.log(high / low):.1f}%"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
