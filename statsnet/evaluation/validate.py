"""Suite and proxy measured in rounds: the fit again, and whether both follow a setting alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import fmean

from statsnet.environment import differences, fingerprint
from statsnet.errors import UsageError
from statsnet.evaluation.factors import Rounds, measure_fidelity, moved_row
from statsnet.evaluation.own_models import OwnModel
from statsnet.evaluation.suite import (
    NO_LIMITS,
    SuiteMember,
    check_own_models,
    profile_jobs,
    replay_notes,
    require_measured,
    suite_of,
    suite_result,
)
from statsnet.measure.engine import Pool
from statsnet.measure.process import measuring_environment
from statsnet.measure.rounds import run_in_rounds, run_on_pool
from statsnet.measure.rounds_log import RoundsLog
from statsnet.measure.timing_tasks import Limits
from statsnet.profiling.replay_task import Replayed
from statsnet.profiling.tasks import Profile
from statsnet.progress import Report, silent
from statsnet.proxy.folder import ProxyFolder, open_proxy, runnable
from statsnet.proxy.private_fit import rounded_figures, rounded_target
from statsnet.signatures.comparison import characteristics, same_work, summary
from statsnet.signatures.computing import computing
from statsnet.signatures.documents import Distances
from statsnet.signatures.intervals import latency_with_ci
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.mix import Mix, MixMember
from statsnet.signatures.model import Mode, Signature
from statsnet.signatures.results import CharacteristicAgain, FitAgain, Moved, Result, Validation
from statsnet.signatures.target import Target, target_of, target_of_mix
from statsnet.workloads.settings import RUNTIME, Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """What is validated, and how. The fit is measured if there are no `settings`, or if `fit` is true. `rounds` is by
    default 2; under settings, 2 to 8, until every factor is known well. `limits` bound a single measurement. With
    `log_path`, times under settings are kept in that file, and those that it already holds are not measured again.
    `models` run members that are not registered. With a `pool`, its places measure, each a whole round or all settings
    of one subject; `models`, which are files of this machine, cannot run there. `tell` is told why a setting is left
    out: the result, which is shared, does not repeat what a model says."""

    rounds: int | None = None
    settings: Sequence[Setting] = ()
    fit: bool = False
    profiles: str | Path | None = None
    device: str = "cpu"
    trust: bool = False
    limits: Limits = NO_LIMITS
    log_path: Path | None = None
    models: Sequence[OwnModel] = ()
    pool: Pool | None = None
    tell: Callable[[str], object] = silent


def validate_proxy(folder: str | Path, options: ValidateOptions, *, report: Report = silent) -> Result:
    """Measure a proxy's suite and the proxy in rounds, A B A B; returns a result of the suite.

    Its `validation` holds every part that was asked for, and `moved` if the proxy was made in another environment.

    Raises UsageError and FileFormatError as open_proxy does, UsageError for a member that cannot be measured,
    MeasurementError if a measurement fails.
    """
    if options.rounds is not None and options.rounds < 1:
        raise UsageError(f"{options.rounds} is not a number of rounds", hint="2 or more show the noise")
    opened = open_proxy(folder, trust=options.trust)
    require_measured(opened.spec)
    with runnable(opened) as proxy:
        return _validated(proxy, options, report)


def _validated(proxy: ProxyFolder, options: ValidateOptions, report: Report) -> Result:
    members = suite_of(proxy.spec, options.profiles, options.models)
    here = options.pool.environment if options.pool else measuring_environment(options.device)
    log = RoundsLog(options.log_path, here=fingerprint(here))
    for member in members:
        for setting in options.settings:
            member.require_to_follow(setting)
    members, unchecked = check_own_models(members, proxy.spec, options.device, report=report)
    notes = [*proxy.notes, *replay_notes(members), *unchecked]
    fit, fidelity, moved = None, None, None
    if options.fit or not options.settings:
        result, fit, fit_notes = _measure_fit(proxy, members, options, report)
        notes += fit_notes
    if options.settings:
        usual = Rounds()
        rounds = Rounds(fewest=options.rounds or usual.fewest, most=options.rounds or usual.most)
        result, fidelity = measure_fidelity(
            proxy,
            members,
            options.settings,
            rounds=rounds,
            device=options.device,
            limits=options.limits,
            log=log,
            pool=options.pool,
            report=report,
            tell=options.tell,
        )
        other = "; a proxy of the workloads that run there can be compared with them"
        runtimes = {e.name for e in options.settings if RUNTIME in e.in_process}
        notes += [f"{f.name} is left out: {f.cause}{other if f.name in runtimes else ''}" for f in fidelity.failed]
    if changed := differences(proxy.spec.reference_environment, result.environment):
        notes.append(f"the proxy was made in another environment ({'; '.join(changed)})")
        moved = _moved(proxy, members, result, notes)
    validation = Validation(fit=fit, fidelity=fidelity, moved=moved, notes=tuple(notes))
    return replace(result, validation=validation)


def _moved(proxy: ProxyFolder, members: Sequence[SuiteMember], result: Result, notes: list[str]) -> Moved | None:
    """Has the proxy followed its suite from where it was made to here? None if its own time there is not known, or a
    member's."""
    fit = proxy.fit()
    if fit is None or fit.summary.step_latency_s is None:
        return None
    if unknown := [m.name for m in members if m.is_rounded or (m.own and m.signature is None)]:
        named = ", ".join(unknown)
        why = "because their signatures have rounded sizes or were not found"
        notes.append(f"how long these took where the proxy was made is not known, {why}: {named}")
        return None
    if fit.recorded:
        notes.append("the times where the proxy was made are predictions, by the record of that device")
    assert result.members is not None and result.proxy is not None
    here = [*(m.processes for m in result.members), result.proxy.processes]
    return moved_row(members, here, fit.summary.step_latency_s)


def _measure_fit(
    proxy: ProxyFolder, members: Sequence[SuiteMember], options: ValidateOptions, report: Report
) -> tuple[Result, FitAgain, list[str]]:
    """The suite's result, the fit measured now, and notes."""
    spec, rounds = proxy.spec, options.rounds or Rounds().fewest
    jobs = profile_jobs(proxy, members, options.device, options.limits.min_time_s)
    outcomes = (
        run_on_pool(options.pool, jobs, rounds, report=report)
        if options.pool
        else run_in_rounds(jobs, rounds, report=report)
    )
    timings = [[o.timing for o in row] for row in outcomes]
    result = suite_result(spec, members, timings, [o.environment for row in outcomes for o in row])
    elsewhere = bool(differences(spec.reference_environment, result.environment))
    *suite, traced = outcomes
    targets = [
        computing(_target(members, [row[number] for row in suite], spec.mode, shift=elsewhere))
        for number in range(rounds)
    ]
    achieved = [target_of(outcome.signature) for outcome in traced]
    recorded = None if elsewhere else _recorded(proxy)
    suite_s = sum(latency_with_ci(row).value for row in timings[:-1])
    proxy_s = latency_with_ci(timings[-1]).value
    rows = tuple(_rows(targets, achieved, recorded, is_private=spec.level is not None))
    figures = _mean_summary([summary(t, a) for t, a in zip(targets, achieved, strict=True)])
    noise = summary(targets[0], targets[-1]) if rounds > 1 else None
    if spec.level is not None:
        figures, noise = rounded_figures(figures, rows), noise and rounded_figures(noise, kept=frozenset())
    fit = FitAgain(
        suite_latency_s=suite_s,
        proxy_latency_s=proxy_s,
        compression=suite_s / proxy_s,
        characteristics=rows,
        summary=figures,
        noise=noise,
    )
    return result, fit, _count_notes(members, targets[0])


def _target(
    members: Sequence[SuiteMember], outcomes: Sequence[Profile | Replayed], mode: Mode, *, shift: bool
) -> Target:
    """The target from one round. The weights `shift` if this is not the reference environment.

    A weight is a share of the time in the reference environment. Elsewhere, a member's share is w_i T_i(e) / T_i(e0),
    normalised.
    """
    measured: dict[str, Measurement] = {}
    signatures: dict[str, Signature] = {}
    for member, outcome in zip(members, outcomes, strict=True):
        if isinstance(outcome, Replayed):
            assert member.signature is not None
            signatures[member.name], measured[member.name] = member.signature, outcome.measurement
        else:
            signatures[member.name] = outcome.signature
            measured[member.name] = outcome.signature.measurements[0]
    weights = {m.name: m.rate * measured[m.name].latency_s if shift else m.weight for m in members}
    total = sum(weights.values())
    mix = Mix(
        mode=mode,
        members=tuple(
            MixMember(name=name, weight=weights[name] / total, signature=signature, source="file", path=Path())
            for name, signature in signatures.items()
        ),
    )
    return target_of_mix(mix, measured)


def _recorded(proxy: ProxyFolder) -> dict[tuple[str, str], float | None]:
    """The target that fit.json recorded; empty if there is no fit.json."""
    fit = proxy.fit()
    return {(row.group, row.name): row.target for row in fit.characteristics} if fit else {}


def _rows(
    targets: Sequence[Target],
    achieved: Sequence[Target],
    recorded: Mapping[tuple[str, str], float | None] | None,
    *,
    is_private: bool,
) -> list[CharacteristicAgain]:
    """Means over the rounds; of private members, the target in few digits. `noise` is the spread of the target between
    rounds, in the same terms as the error."""
    tables = [
        {(row.group, row.name): row for row in characteristics(t, a)} for t, a in zip(targets, achieved, strict=True)
    ]
    rows = []
    for key in dict.fromkeys(key for table in tables for key in table):
        per_round = [table[key] for table in tables if key in table]
        is_share = per_round[0].is_share
        # In a round that did not see a class, its share is 0.
        pad = [0.0] * (len(tables) - len(per_round)) if is_share else []
        wanted = _known([row.target for row in per_round], pad)
        got = _known([row.achieved for row in per_round], pad)
        target, reached = _mean(wanted), _mean(got)
        if is_private and target is not None:
            target = rounded_target(target, key[0])
        rows.append(
            CharacteristicAgain(
                group=key[0],
                name=key[1],
                unit=per_round[0].unit,
                recorded=(recorded or {}).get(key),
                target=target,
                achieved=reached,
                error=replace(per_round[0], target=target, achieved=reached).missed_by,
                noise=_spread(wanted, is_share=is_share) if len(wanted) > 1 else None,
            )
        )
    return rows


def _known(values: Sequence[float | None], pad: Sequence[float]) -> list[float]:
    return [value for value in values if value is not None] + list(pad)


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _spread(values: Sequence[float], *, is_share: bool) -> float | None:
    low, high = min(values), max(values)
    if is_share:
        return high - low
    return high / low - 1 if low > 0 else None


def _mean_summary(summaries: Sequence[Distances]) -> Distances:
    names = [f.name for f in fields(Distances)]
    return Distances(**{name: _mean(_known([getattr(s, name) for s in summaries], [])) for name in names})


def _count_notes(members: Sequence[SuiteMember], target: Target) -> list[str]:
    """Names models that do other work than their signature says: another version, or another size."""
    notes = []
    for member, fresh in zip(members, target.members, strict=True):
        if member.own or member.evidence == "replay" or member.signature is None:
            continue  # an own model's work was compared before
        if any(m.variation for each in (member.signature, fresh.signature) for m in each.measurements):
            continue
        before, now = member.signature.flops_per_step, fresh.signature.flops_per_step
        if not same_work(member.signature, fresh.signature):
            times = f"{now / before:.2g} times its" if before else "other"
            notes.append(f"'{member.name}' is not what its signature says: a step has {times} FLOPs")
    return notes
