"""Where a proxy's error under a setting comes from: suite and proxy profiled in rounds, and the error taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from statsnet.environment import differences
from statsnet.errors import UsageError
from statsnet.evaluation.causes import Known, advice_on
from statsnet.evaluation.error_parts import (
    Step,
    Times,
    class_errors,
    expected_factors,
    factor_of,
    merged,
    times_of,
)
from statsnet.evaluation.explained import (
    Explained,
    ExplainedClass,
    ExplainedMember,
    ExplainedSetting,
    explained_blocks,
)
from statsnet.evaluation.factors import factors, suite_noise
from statsnet.evaluation.own_models import OwnModel
from statsnet.evaluation.run_proxy import common_environment
from statsnet.evaluation.suite import (
    SuiteMember,
    check_own_models,
    profile_jobs,
    replay_notes,
    require_measured,
    suite_of,
)
from statsnet.measure.rounds import run_in_rounds
from statsnet.profiling.replay_task import Replayed
from statsnet.profiling.tasks import Profile
from statsnet.progress import Report, silent
from statsnet.proxy.folder import ProxyFolder, open_proxy, runnable
from statsnet.signatures.intervals import relative_error
from statsnet.signatures.measurement import Measurement
from statsnet.synthesis.bench.tasks import NetworkTrace
from statsnet.units import listed
from statsnet.workloads.settings import BASELINE, RUNTIME, Setting

IN_ONE_PIECE = ("compile", "graphs", RUNTIME)
"""Under these a step runs as a whole, and no operator has a time of its own."""

LARGE = 0.01
"""A class gets an advice if it adds this much to the error, as a share of the suite's factor."""

MOVED = 1.1
"""A member runs at another pace if it takes this many times as long, or as short, beside the others as it did."""

NAMED = 3
"""Most operators that a note names."""

BETWEEN_REPLAYED = (
    "of replayed members the time between operators is the recorded one, scaled as their operators: their factors say "
    "nothing of it"
)

Outcome = Profile | Replayed | NetworkTrace


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """`rounds` is how often everything is measured; two or more show the noise. `models` run members that are not
    registered."""

    settings: Sequence[Setting]
    rounds: int = 2
    profiles: str | Path | None = None
    device: str = "cpu"
    trust: bool = False
    min_time_s: float | None = None
    models: Sequence[OwnModel] = ()


def explain_proxy(folder: str | Path, options: ExplainOptions, *, report: Report = silent) -> Explained:
    """Profile a proxy and its suite at the baseline and under settings, in rounds, and take the error apart.

    A member whose model is not at hand is replayed. Raises UsageError and FileFormatError as open_proxy does,
    UsageError for a member that cannot be measured or a setting that cannot be explained, MeasurementError if measuring
    fails.
    """
    if options.rounds < 1:
        raise UsageError(f"{options.rounds} is not a number of rounds", hint="2 or more show the noise")
    for setting in options.settings:
        _require_operators(setting)
    opened = open_proxy(folder, trust=options.trust)
    require_measured(opened.spec)
    with runnable(opened) as proxy:
        members = suite_of(proxy.spec, options.profiles, options.models)
        for member in members:
            for setting in options.settings:
                member.require_to_follow(setting)
        members, unchecked = check_own_models(members, proxy.spec, options.device, report=report)
        found = _Measured(proxy, members, options, _measured(proxy, members, options, report)).explained()
        return replace(found, notes=(*unchecked, *found.notes))


def _require_operators(setting: Setting) -> None:
    for key in IN_ONE_PIECE:
        if key in setting.in_process:
            raise UsageError(
                f"'{setting.name}' cannot be explained",
                cause=f"under '{key}' a step runs in one piece, and no operator has a time of its own",
                hint="statsnet validate compares the times of whole steps under it",
            )


def _measured(
    proxy: ProxyFolder, members: Sequence[SuiteMember], options: ExplainOptions, report: Report
) -> list[list[list[Any]]]:
    """By subject, then by setting, then by round. A subject's settings come one after the other, so that what they are
    compared with was measured just before."""
    settings = (BASELINE, *options.settings)
    jobs = [
        replace(job, control=replace(job.control, setting=setting, label=f"{job.label} ({setting.name})"))
        for job in profile_jobs(proxy, members, options.device, options.min_time_s)
        for setting in settings
    ]
    found = run_in_rounds(jobs, options.rounds, report=report)
    return [found[i : i + len(settings)] for i in range(0, len(found), len(settings))]


@dataclass(frozen=True, slots=True)
class _Measured:
    """`outcomes` by subject (all members, then the proxy), then by setting (the baseline first), then by round."""

    proxy: ProxyFolder
    members: Sequence[SuiteMember]
    options: ExplainOptions
    outcomes: Sequence[Sequence[Sequence[Any]]]

    def explained(self) -> Explained:
        spec = self.proxy.spec
        environment = common_environment([o.environment for subject in self.outcomes for o in subject[0]])
        changed = differences(spec.reference_environment, environment)
        members = tuple(self._member(place) for place in range(len(self.members)))
        known = self._known(members)
        return Explained(
            proxy=self.proxy.subject_id,
            mode=spec.mode,
            environment=environment,
            rounds=self.options.rounds,
            members=members,
            settings=tuple(self._setting(i, s, known) for i, s in enumerate(self.options.settings, 1)),
            notes=(
                *replay_notes(self.members),
                *([BETWEEN_REPLAYED] if any(m.evidence == "replay" for m in members) else []),
                *self._not_run(),
                *(
                    f"{m.untimed_share:.1%} of {m.name}'s calls were not timed"
                    for m in members
                    if m.untimed_share >= LARGE
                ),
                *([f"the proxy was made in another environment ({'; '.join(changed)})"] if changed else []),
            ),
        )

    def _setting(self, place: int, setting: Setting, known: Known) -> ExplainedSetting:
        rounds = [self._round(place, number) for number in range(self.options.rounds)]
        even = [1.0 / len(rounds)] * len(rounds)
        suite, proxy = (merged([sides[i] for sides in rounds], even) for i in (0, 1))
        each = [{row.name: row.error for row in class_errors(*sides)} for sides in rounds]
        classes = []
        for row in class_errors(suite, proxy):
            errors = [found.get(row.name, 0.0) for found in each]
            noise = max(errors) - min(errors) if len(errors) > 1 else None
            advice = advice_on(row, noise, known) if abs(row.error) >= LARGE else None
            classes.append(ExplainedClass(error=row, noise=noise, advice=advice))
        before, after = ([[o.timing for o in subject[at]] for subject in self.outcomes] for at in (0, place))
        suite_factor, proxy_factor = factors(self.members, before, after)
        traces = self.outcomes[-1]
        expected, whole = expected_factors(suite, proxy), factor_of(suite)
        return ExplainedSetting(
            name=setting.name,
            suite_factor=suite_factor,
            proxy_factor=proxy_factor,
            error=relative_error(suite_factor, proxy_factor),
            suite_noise=suite_noise(self.members, after),
            classes=tuple(classes),
            blocks=explained_blocks(self.proxy.spec.towers, traces[0], traces[place], expected, whole),
        )

    def _round(self, place: int, number: int) -> tuple[Times, Times]:
        """Suite and proxy under the setting at `place`, in one round."""
        *of_members, of_proxy = (self._times(subject, place, number) for subject in range(len(self.outcomes)))
        return merged(of_members, self._shares(number)), of_proxy

    def _times(self, subject: int, place: int, number: int) -> Times:
        return times_of(self._step(subject, 0, number), self._step(subject, place, number))

    def _step(self, subject: int, place: int, number: int) -> Step:
        outcome: Outcome = self.outcomes[subject][place][number]
        if isinstance(outcome, Replayed):
            signature = self.members[subject].signature
            assert signature is not None
        else:
            signature = outcome.signature
        return Step(clusters=signature.clusters, measurement=_measurement(outcome))

    def _shares(self, number: int) -> list[float]:
        """The members' shares of the suite's time at the baseline, in one round. They have the rates of the environment
        in which the proxy was made."""
        suite = zip(self.members, self.outcomes[:-1], strict=True)
        times = [m.rate * _measurement(subject[0][number]).latency_s for m, subject in suite]
        return [time / sum(times) for time in times]

    def _member(self, place: int) -> ExplainedMember:
        member = self.members[place]
        share = fmean(self._shares(number)[place] for number in range(self.options.rounds))
        before_s, *after_s = (fmean(_measurement(o).latency_s for o in row) for row in self.outcomes[place])
        step = self._step(place, 0, 0)
        calls = [(c.calls, time_s) for c, time_s in zip(step.clusters, step.measurement.cluster_time_s, strict=True)]
        whole = sum(n for n, _ in calls)
        return ExplainedMember(
            name=member.name,
            evidence=member.evidence,
            weight=member.weight,
            share=share,
            pace=share / member.weight,
            factors={s.name: time_s / before_s for s, time_s in zip(self.options.settings, after_s, strict=True)},
            untimed_share=sum(n for n, time_s in calls if time_s is None) / whole if whole else 0.0,
        )

    def _known(self, members: Sequence[ExplainedMember]) -> Known:
        fit = self.proxy.fit()
        asked = merged([self._times(i, 0, 0) for i in range(len(members))], [m.weight for m in members])
        moved = max(members, key=lambda m: abs(m.share - m.weight))
        return Known(
            lacking={u.kernel_class: u.has_candidate for u in (fit.uncovered if fit else None) or ()},
            as_made={name: spent.here for name, spent in asked.items()},
            moved=moved.name if not 1 / MOVED < moved.pace < MOVED else None,
        )

    def _not_run(self) -> list[str]:
        """Operators that a replay could not run. They keep their recorded times, scaled as the others'."""
        found = []
        for member, subject in zip(self.members, self.outcomes[:-1], strict=True):
            why = dict(f for row in subject for o in row if isinstance(o, Replayed) for f in o.failures)
            if why:
                named = [f"{op}: {cause}" for op, cause in sorted(why.items())]
                operators = listed(named, NAMED, "; ")
                found.append(f"operators of {member.name} were not run, their recorded times are scaled ({operators})")
        return found


def _measurement(outcome: Outcome) -> Measurement:
    return outcome.measurement if isinstance(outcome, Replayed) else outcome.signature.measurements[0]
