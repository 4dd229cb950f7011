"""The suite in the same scenario as its proxy: under a setting, does the proxy's p99 change by the suite's factor?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from statsnet import workloads
from statsnet.environment import differences
from statsnet.environment.memory import memory_at_hand_bytes
from statsnet.errors import DeviceError, UsageError
from statsnet.evaluation.own_models import OwnModel, example, targets_of
from statsnet.evaluation.scenario_rules import RESULT_PERCENTILE, check_rate, check_server_options
from statsnet.evaluation.scenarios import (
    MIN_TIME_S,
    Asking,
    check_inference,
    environment_of,
    query_job,
    samples_per_query,
)
from statsnet.evaluation.suite import SuiteMember, check_own_models, require_measured, suite_of
from statsnet.measure.control import JOB_LIMIT_S, Control, Job
from statsnet.measure.loadgen import Load, check_library
from statsnet.measure.scenario_tasks import Answered, AnswerQueries
from statsnet.measure.timing_tasks import TimeWorkload
from statsnet.progress import Report, silent
from statsnet.proxy.folder import ProxyFolder, open_proxy, runnable
from statsnet.signatures.documents import ProxySpec, SpecMember
from statsnet.signatures.results import Subject
from statsnet.signatures.scenarios import (
    AskedMember,
    ScenarioName,
    ScenarioResult,
    ScenarioRules,
    SuiteBeside,
    Trial,
    UnderSetting,
)
from statsnet.units import format_bytes
from statsnet.workloads.settings import BASELINE, Setting

LOAD = 0.3
"""Where no rate is given, the server scenario asks for so much of what a side's step alone would allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteScenarioOptions:
    """What is measured. `qps` is the suite's rate in the server scenario; the proxy is asked as much more often as its
    step is shorter. `min_queries` are those of each run. `models` run members that are not registered."""

    scenario: ScenarioName
    settings: Sequence[Setting] = ()
    qps: float | None = None
    min_time_s: float = MIN_TIME_S
    min_queries: int = 1
    rounds: int = 2
    profiles: str | Path | None = None
    device: str = "cpu"
    trust: bool = False
    models: Sequence[OwnModel] = ()


def validate_scenario(folder: str | Path, options: SuiteScenarioOptions, *, report: Report = silent) -> ScenarioResult:
    """Run a proxy's suite and the proxy in a scenario, in rounds, at the baseline and under each setting.

    Queries of the suite go to members in proportion to their steps in a second of the mix, so that each takes its share
    of the time. Members whose model is not at hand are left out: a replay answers nothing.

    Raises as `run_scenario` does, and UsageError where no member's model is at hand.
    """
    proxy = open_proxy(folder, trust=options.trust)
    require_measured(proxy.spec)
    check_inference(proxy.spec.mode)
    check_library()
    check_server_options(options.scenario, options.min_time_s, qps=options.qps)
    at_hand, absent = _at_hand(proxy.spec, options.models)
    members = suite_of(replace(proxy.spec, mix=at_hand), options.profiles, options.models)
    if options.device == "cpu":
        _check_memory(members, memory_at_hand_bytes())
    members, unchecked = check_own_models(members, proxy.spec, options.device, report=report)
    with runnable(proxy) as ready:
        return _measured(ready, members, [*unchecked, *_notes(proxy, absent)], options, report)


def _at_hand(spec: ProxySpec, models: Sequence[OwnModel]) -> tuple[tuple[SpecMember, ...], list[SpecMember]]:
    known, own = {*workloads.names()}, targets_of(spec, models)
    at_hand = tuple(m for m in spec.mix if m.name in own or m.name.partition("@")[0] in known)
    absent = [member for member in spec.mix if member not in at_hand]
    if not at_hand:
        raise UsageError(
            "the suite cannot be run in a scenario",
            cause="the model of none of its members is at hand, and a replay of operators answers no queries",
            hint=f"name their models with {example()}, or install them; statsnet run --scenario runs the proxy alone",
        )
    return at_hand, absent


def _check_memory(members: Sequence[SuiteMember], at_hand_bytes: int) -> None:
    """Raises DeviceError where the members, which are loaded in one process, need more than there is."""
    needed_bytes = sum(member.peak_bytes or 0 for member in members)
    if needed_bytes > at_hand_bytes:
        raise DeviceError(
            "the suite's models do not fit into memory together",
            cause=f"they need up to {format_bytes(needed_bytes)}, and {format_bytes(at_hand_bytes)} are free",
            hint="free memory; statsnet run --scenario runs the proxy alone",
        )


def query_shares(members: Sequence[SuiteMember]) -> tuple[float, ...]:
    """The share of the queries that each gets: a weight is a share of time, so queries are weight over step time."""
    total = sum(member.rate for member in members)
    return tuple(member.rate / total for member in members)


def suite_job(
    spec: ProxySpec, members: Sequence[SuiteMember], load: Load, device: str, setting: Setting
) -> Job[Answered]:
    """The job in which all members answer a load, each its share of the queries, in one process."""
    tasks = [member.timing_job(spec, device, setting).task for member in members]
    models = tuple(task for task in tasks if isinstance(task, TimeWorkload))
    peak_bytes = sum(member.peak_bytes or 0 for member in members) or None
    task = AnswerQueries(load=load, models=models, shares=query_shares(members))
    return Job(
        task,
        Control(setting=setting, label=f"the suite ({setting.name})", peak_bytes=peak_bytes, timeout_s=JOB_LIMIT_S),
    )


def _measured(
    proxy: ProxyFolder,
    members: Sequence[SuiteMember],
    notes: Sequence[str],
    options: SuiteScenarioOptions,
    report: Report,
) -> ScenarioResult:
    spec, device, scenario = proxy.spec, options.device, options.scenario
    sides: tuple[Callable[[Load, Setting], Job[Answered]], ...] = (
        lambda load, setting: suite_job(spec, members, load, device, setting),
        lambda load, setting: query_job(proxy, load, device, setting, label=f"the proxy ({setting.name})"),
    )
    rules = ScenarioRules(
        min_time_s=options.min_time_s,
        min_queries=options.min_queries,
        percentile=RESULT_PERCENTILE[scenario],
        samples_per_query=samples_per_query(scenario),
    )
    settings = [BASELINE, *options.settings]
    asking = {each.name: [Asking(job_of=job_of, report=report) for job_of in sides] for each in settings}
    rates: Sequence[float | None] = _rates(asking[BASELINE.name], options) if scenario == "server" else (None, None)
    trials: dict[str, tuple[list[Trial], list[Trial]]] = {each.name: ([], []) for each in settings}
    for number in range(options.rounds):
        for setting in settings:
            for side, qps in enumerate(rates):
                load = Load(scenario=scenario, rules=rules, qps=qps, seed=number)
                trials[setting.name][side].append(asking[setting.name][side].trial(load, setting))
    here = {key: environment_of([e for side in both for e in side.environments]) for key, both in asking.items()}
    suite, beside = trials[BASELINE.name]
    return ScenarioResult(
        subject=Subject(type="suite", id=spec.id, mode=spec.mode),
        environment=here[BASELINE.name],
        scenario=scenario,
        rules=rules,
        trials=tuple(suite),
        beside=SuiteBeside(
            members=tuple(
                AskedMember(name=member.name, weight=member.weight, query_share=share)
                for member, share in zip(members, query_shares(members), strict=True)
            ),
            proxy=tuple(beside),
            settings=tuple(
                UnderSetting(
                    name=each.name,
                    suite=tuple(trials[each.name][0]),
                    proxy=tuple(trials[each.name][1]),
                    differences=tuple(differences(here[BASELINE.name], here[each.name])),
                )
                for each in options.settings
            ),
            notes=tuple(notes),
        ),
    )


def _rates(asking: Sequence[Asking], options: SuiteScenarioOptions) -> tuple[float, float]:
    """Rates for suite and proxy that keep both as busy at the baseline."""
    suite_s, proxy_s = (side.step_s(BASELINE, options.min_time_s) for side in asking)
    suite_qps = float(f"{LOAD / suite_s:.3g}") if options.qps is None else options.qps
    rates = suite_qps, float(f"{suite_qps * suite_s / proxy_s:.3g}")
    for qps in rates:
        check_rate(qps, options.min_time_s)
    return rates


def _notes(proxy: ProxyFolder, absent: Sequence[SpecMember]) -> list[str]:
    said = [*proxy.notes]
    if absent:
        share, names = sum(member.weight for member in absent), ", ".join(member.name for member in absent)
        said.append(f"{share:.0%} of the suite is left out, since these models are not at hand: {names}")
    return said
