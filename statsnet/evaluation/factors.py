"""Do suite and proxy follow a setting alike? The error is F_P / F_S - 1, from times alone."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from statsnet.environment import differences
from statsnet.errors import MeasurementError, lacks_memory
from statsnet.evaluation.run_proxy import common_environment, proxy_job
from statsnet.evaluation.suite import SuiteMember, suite_result
from statsnet.measure.engine import Pool
from statsnet.measure.rounds_log import RoundsLog, Subject, measure_until_known
from statsnet.measure.task import to_json
from statsnet.measure.timing_tasks import Limits
from statsnet.progress import Report
from statsnet.proxy.folder import ProxyFolder
from statsnet.signatures.intervals import (
    Interval,
    Member,
    paired_ratio,
    paired_suite_factor,
    process_median_s,
    ratio_with_ci,
    relative_error,
    suite_factor,
)
from statsnet.signatures.results import FailedSetting, Fidelity, MemberFactor, Moved, Result, SettingFactors
from statsnet.signatures.timing import Timing
from statsnet.workloads.settings import BASELINE, Setting

Timings = Sequence[Sequence[Timing]]
"""By subject, then by round. The members come in their order, the proxy last."""

HALF_WIDTH = 0.015
"""Rounds go on until the 95 % interval of each factor's logarithm has at most this half-width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How many rounds are measured: `fewest` at least, then more until every factor is known, but at most `most`."""

    fewest: int = 2
    most: int = 8


def measure_fidelity(
    proxy: ProxyFolder,
    members: Sequence[SuiteMember],
    settings: Sequence[Setting],
    *,
    rounds: Rounds,
    device: str,
    limits: Limits,
    log: RoundsLog,
    pool: Pool | None,
    report: Report,
    tell: Callable[[str], object],
) -> tuple[Result, Fidelity]:
    """The suite's result at the baseline, and the factors of suite and proxy under every setting.

    In each round, every member and then the proxy runs in new processes that take turns: one for the baseline and one
    for each setting. Rounds go on until every factor is known to HALF_WIDTH. A setting in which a member or the proxy
    does not run is left out and named in `failed`; `tell` is told its error, which may quote a private model. What the
    `log` already holds is not measured again. With a `pool`, its places measure a round's members and proxy at once.

    Raises UsageError for a setting that a replayed member cannot follow, MeasurementError if no setting is left.
    """
    subjects = subjects_of(proxy, members, device, limits)
    measured = _Measured(log, members, subjects, settings)
    for subject, setting in ((s, e) for s in subjects for e in settings):
        subject.job(setting)  # raises before any work if a replay cannot follow the setting
    measure_until_known(
        log,
        subjects,
        settings,
        fewest=rounds.fewest,
        most=rounds.most,
        uncertain=measured.uncertain,
        skip=measured.skip,
        pool=pool,
        report=report,
    )
    for setting in settings:
        if failure := measured.failure(setting):
            tell(f"{setting.name} is left out: {failure[1]}")
    baseline = [log.of(s, BASELINE) for s in subjects]
    here = [e for s in subjects for e in log.environments(s, BASELINE)]
    result = suite_result(proxy.spec, members, baseline, here)

    def row(setting: Setting) -> SettingFactors:
        there = common_environment([e for s in subjects for e in log.environments(s, setting)])
        changed = differences(result.environment, there)
        return setting_row(setting, members, *measured.timings(setting), differences=changed)

    return result, Fidelity(
        rounds=min(map(len, baseline)),
        widest_half_width=widest_half_width(measured.factors()),
        baseline_noise=suite_noise(members, baseline),
        settings=tuple(row(setting) for setting in measured.left()),
        failed=measured.failed(),
    )


@dataclass(frozen=True, slots=True)
class _Measured:
    """All subjects and settings, and what the log knows of them so far."""

    log: RoundsLog
    members: Sequence[SuiteMember]
    subjects: Sequence[Subject]
    settings: Sequence[Setting]

    def failure(self, setting: Setting) -> tuple[Subject, str] | None:
        """The first that does not run in the setting, and its error."""
        return next(((s, why) for s in self.subjects if (why := self.log.failed(s, setting)) is not None), None)

    def failed(self) -> tuple[FailedSetting, ...]:
        found = [(e.name, self.failure(e)) for e in self.settings]
        return tuple(FailedSetting(name=name, cause=_told(*failure)) for name, failure in found if failure is not None)

    def skip(self, setting: Setting) -> bool:
        failures = [self.failure(e) for e in self.settings]
        if (first := failures[0]) is not None and all(failures):
            raise MeasurementError(
                f"nothing runs under {self.settings[0].name}", cause=first[1], hint="leave it out of --settings"
            )
        return any(failure and e.name == setting.name for e, failure in zip(self.settings, failures, strict=True))

    def left(self) -> list[Setting]:
        return [e for e in self.settings if not self.skip(e)]

    def timings(self, setting: Setting) -> tuple[Timings, Timings]:
        pairs = [self.log.pairs(s, setting) for s in self.subjects]
        return [before for before, _ in pairs], [after for _, after in pairs]

    def factors(self) -> list[Interval]:
        return [f for e in self.left() for f in factors(self.members, *self.timings(e))]

    def uncertain(self) -> set[tuple[str, str]]:
        if known_well(self.factors()):
            return set()
        return {(s.identity, e.name) for s in self.subjects for e in self.left()}


def _told(subject: Subject, why: str) -> str:
    """An error as a result says it: a result is shared, and the error may quote a private model."""
    return f"{subject.label} does not run there{', for memory is too short' if lacks_memory(why) else ''}"


def subjects_of(proxy: ProxyFolder, members: Sequence[SuiteMember], device: str, limits: Limits) -> list[Subject]:
    """All members, then the proxy."""
    spec = proxy.spec
    subjects = [
        Subject(
            identity=f"{spec.mode} {m.name} {_digest(m.timing_job(spec, device, BASELINE, limits).task)}",
            label=m.name,
            job=lambda setting, m=m: m.timing_job(spec, device, setting, limits),  # type: ignore[misc]
        )
        for m in members
    ]
    own = Subject(
        identity=f"{proxy.network_sha256} {_digest((device, limits))}",
        label="the proxy",
        job=lambda setting: proxy_job(
            proxy, device=device, setting=setting, limits=limits, label=f"the proxy ({setting.name})"
        ),
    )
    return [*subjects, own]


def _digest(how: object) -> str:
    """A digest of the whole task, so that a log tells apart tasks of other sizes, dtypes, devices or limits."""
    return hashlib.sha256(to_json(how).encode()).hexdigest()[:12]


def factors(members: Sequence[SuiteMember], before: Timings, after: Timings) -> tuple[Interval, Interval]:
    """The factors of suite and proxy. The last entry of `before` and of `after` is the proxy's.

    The suite's factor is Σ rate_i T_i(after) / Σ rate_i T_i(before): its members keep the rates of the environment in
    which the proxy was made, which may be another than the baseline.
    """
    suite = paired_suite_factor(
        [Member(rate=m.rate, a=a, b=b) for m, a, b in zip(members, before[:-1], after[:-1], strict=True)]
    )
    return suite, paired_ratio(before[-1], after[-1])


def widest_half_width(intervals: Sequence[Interval]) -> float | None:
    """Half the width of the widest interval, on the logarithm; None if an interval is not known."""
    if any(f.low is None or f.high is None for f in intervals):
        return None
    return max((math.log(f.high / f.low) / 2 for f in intervals if f.low and f.high), default=0.0)


def known_well(intervals: Sequence[Interval]) -> bool:
    widest = widest_half_width(intervals)
    return widest is not None and widest <= HALF_WIDTH


def setting_row(
    setting: Setting,
    members: Sequence[SuiteMember],
    before: Timings,
    after: Timings,
    *,
    differences: Sequence[str] = (),
) -> SettingFactors:
    """Factors and error of one setting. The last entry of `before` and of `after` is the proxy's. `differences` says
    how the environments differ."""
    suite, proxy = factors(members, before, after)
    return SettingFactors(
        name=setting.name,
        suite_factor=suite,
        proxy_factor=proxy,
        error=relative_error(suite, proxy),
        suite_noise=suite_noise(members, after),
        members=_member_factors(members, before, after, paired_ratio),
        differences=tuple(differences),
        member_processes=tuple(tuple(row) for row in after[:-1]),
        proxy_processes=tuple(after[-1]),
    )


def moved_row(members: Sequence[SuiteMember], here: Timings, proxy_latency_s_reference: float) -> Moved:
    """Factors and error from the environment where the proxy was made to this one. The last entry of `here` is the
    proxy's. The times from there count as exact, so the intervals come from the times here."""
    latencies_s = [*(m.latency_s_reference for m in members), proxy_latency_s_reference]
    there = [[Timing(latency_s=(latency_s,))] * 2 for latency_s in latencies_s]
    suite = suite_factor(
        [Member(rate=m.rate, a=a, b=b) for m, a, b in zip(members, there[:-1], here[:-1], strict=True)]
    )
    proxy = ratio_with_ci(there[-1], here[-1])
    return Moved(
        suite_factor=suite,
        proxy_factor=proxy,
        error=relative_error(suite, proxy),
        members=_member_factors(members, there, here, ratio_with_ci),
    )


def _member_factors(
    members: Sequence[SuiteMember],
    before: Timings,
    after: Timings,
    ratio: Callable[[Sequence[Timing], Sequence[Timing]], Interval],
) -> tuple[MemberFactor, ...]:
    factors = [ratio(a, b) for a, b in zip(before[:-1], after[:-1], strict=True)]
    return tuple(
        MemberFactor(name=m.name, evidence=m.evidence, value=f.value, low=f.low, high=f.high)
        for m, f in zip(members, factors, strict=True)
    )


def suite_noise(members: Sequence[SuiteMember], timings: Timings) -> float | None:
    """The suite's weighted time in its slowest round ÷ that in its fastest, less 1; None for one round. Rows after the
    members' (the proxy's) are ignored."""
    rows = timings[: len(members)]
    rounds = min(map(len, rows))  # a resumed log may hold more of some members
    sums = [sum(m.rate * process_median_s(row[r]) for m, row in zip(members, rows, strict=True)) for r in range(rounds)]
    return max(sums) / min(sums) - 1 if rounds > 1 else None
