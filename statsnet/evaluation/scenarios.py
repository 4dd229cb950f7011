"""A proxy in MLPerf's scenarios: as many runs of the load generator as each asks for, and one result of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from statsnet.environment.record import usable_cores
from statsnet.errors import StatsNetError, UsageError
from statsnet.evaluation.run_proxy import common_environment, proxy_job
from statsnet.evaluation.scenario_rules import (
    RESULT_PERCENTILE,
    check_rate,
    check_server_options,
    judge,
    option_time,
    queries_needed,
    rate_text,
)
from statsnet.measure.control import JOB_LIMIT_S, Control, Job
from statsnet.measure.loadgen import Load, check_library
from statsnet.measure.rounds import measuring_failed
from statsnet.measure.scenario_tasks import Answered, AnswerQueries, run_together
from statsnet.measure.timing_tasks import TimeNetwork
from statsnet.progress import Progress, Report, silent
from statsnet.proxy.folder import ProxyFolder, open_proxy, runnable
from statsnet.signatures.model import Mode
from statsnet.signatures.results import Subject
from statsnet.signatures.scenarios import ScenarioName, ScenarioResult, ScenarioRules, Trial
from statsnet.units import format_duration
from statsnet.workloads.settings import BASELINE, Setting, with_threads

MIN_TIME_S = 60.0

BOUND_STEPS = 5
"""Where no bound is given, it is so many times the step, to two digits."""

LOOK_S = 2.0
"""How long a step is looked at first, alone, where rates or a bound follow from it."""

LOADS = (0.3, 0.5, 0.7, 0.8, 0.9, 1.0)
BEYOND, MOST_BEYOND, MOST_BELOW = 1.25, 4, 2
CLOSE, MOST_BISECTIONS = 1.05, 4
"""Rates that are tried, as shares of what a step alone would allow, up to the first INVALID one. Then the interval
between the highest VALID rate and that one is halved, until they are CLOSE."""

SEARCH_LOADS, MOST_IN_SEARCH = 8.0, 4_000_000
"""The loads of a usual search together, and the queries that fit into a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOptions:
    """How a scenario is run. Without `qps`, the server scenario looks for the highest VALID rate. Without `min_queries`
    each of its rates is held until its percentile can be known; elsewhere `min_time_s` decides alone."""

    scenario: ScenarioName
    qps: float | None = None
    latency_bound_s: float | None = None
    min_time_s: float = MIN_TIME_S
    min_queries: int | None = None
    device: str = "cpu"
    threads: int | None = None
    processes: int = 1
    setting: Setting = BASELINE
    trust: bool = False

    def __post_init__(self) -> None:
        """Raises UsageError for options that do not go together."""
        check_server_options(self.scenario, self.min_time_s, qps=self.qps, latency_bound_s=self.latency_bound_s)

    @property
    def rules(self) -> ScenarioRules:
        share = RESULT_PERCENTILE[self.scenario]
        is_search = self.scenario == "server" and self.qps is None
        return ScenarioRules(
            min_time_s=self.min_time_s,
            min_queries=self.min_queries or (queries_needed(share) if is_search else 1),
            percentile=share,
            latency_bound_s=self.latency_bound_s,
            samples_per_query=samples_per_query(self.scenario),
        )


def samples_per_query(scenario: ScenarioName) -> int:
    """As in MLPerf."""
    return 8 if scenario == "multi-stream" else 1


def check_inference(mode: Mode) -> None:
    """Raises UsageError for a proxy of training steps."""
    if mode != "inference":
        raise UsageError(
            "a training step has no queries",
            cause="scenarios say how fast inference answers queries, and this proxy's step trains",
            hint="leave out --scenario to time the step, or synthesize a proxy with --mode inference",
        )


@dataclass(slots=True, kw_only=True)
class Asking:
    """Runs the load generator against one subject. `job_of` gives the job that answers a load under a setting;
    `environments` collects those of all runs."""

    job_of: Callable[[Load, Setting], Job[Answered]]
    report: Report = silent
    environments: list[Mapping[str, Any]] = field(default_factory=list)

    def trial(self, load: Load, setting: Setting, instances: int = 1) -> Trial:
        """One run, or one of each of several instances at the same time."""
        job = self.job_of(load, setting)
        many = f", {instances} instances" if instances > 1 else ""
        at = f" at {rate_text(load.qps)} queries/s" if load.qps is not None else ""
        self.report(Progress(stage=f"{job.label}: {load.scenario}{at}{many}, run {load.seed + 1}"))
        try:
            answered = run_together([job] * instances)
        except UsageError:
            raise
        except StatsNetError as error:
            raise measuring_failed(job.label, error) from error
        self.environments += [each.environment for each in answered]
        threads = answered[0].environment.get("threads")
        return Trial(answers=tuple(each.answers for each in answered), threads=threads or None, qps=load.qps)

    def step_s(self, setting: Setting, min_time_s: float) -> float:
        """A step's mean time, alone."""
        rules = ScenarioRules(min_time_s=min(LOOK_S, min_time_s), percentile=RESULT_PERCENTILE["single-stream"])
        return fmean(self.trial(Load(scenario="single-stream", rules=rules), setting).latency_s)


def run_scenario(folder: str | Path, options: ScenarioOptions, *, report: Report = silent) -> ScenarioResult:
    """Run the proxy in a folder in a scenario.

    Raises UsageError where the load generator is not installed, for a training proxy and for a bound that is shorter
    than a step; what open_proxy raises; MeasurementError if the network fails.
    """
    proxy = open_proxy(folder, trust=options.trust)
    check_inference(proxy.spec.mode)
    check_library()
    with runnable(proxy) as ready:
        asking = Asking(job_of=lambda load, setting: query_job(ready, load, options.device, setting), report=report)
        rules, trials = _trials(asking, options)
    return ScenarioResult(
        subject=Subject(type="proxy", id=proxy.subject_id, mode=proxy.spec.mode),
        environment=environment_of(asking.environments),
        scenario=options.scenario,
        rules=rules,
        trials=tuple(trials),
    )


def query_job(
    proxy: ProxyFolder, load: Load, device: str, setting: Setting, *, label: str = "the proxy"
) -> Job[Answered]:
    """The job in which a proxy answers a load."""
    network = proxy_job(proxy, device=device, setting=setting).task
    assert isinstance(network, TimeNetwork)
    return Job(AnswerQueries(load=load, network=network), Control(setting=setting, label=label, timeout_s=JOB_LIMIT_S))


def _trials(asking: Asking, options: ScenarioOptions) -> tuple[ScenarioRules, list[Trial]]:
    rules, setting = options.rules, with_threads(options.setting, options.threads)
    if options.scenario == "server":
        return _at_rates(asking, options, rules, setting)
    if options.scenario == "offline":
        on_gpu = options.device.startswith("cuda")
        pairs = instances_and_threads(1 if on_gpu else usable_cores(), setting.threads)
    else:
        pairs = [(1, setting.threads)]
    return rules, [
        asking.trial(
            Load(scenario=options.scenario, rules=rules, seed=number), with_threads(options.setting, threads), instances
        )
        for instances, threads in pairs
        for number in range(options.processes)
    ]


def instances_and_threads(cores: int, threads: int | None) -> list[tuple[int, int | None]]:
    """Offline, how many instances of how many threads are tried: one of one thread, and all that fill the cores with
    powers of two; with `threads` given, ever more instances of so many. On one core it is as torch has it."""
    if threads is not None:
        most = max(1, cores // threads)
        return [(instances, threads) for instances in sorted({*_powers(most), most})]
    if cores == 1:
        return [(1, None)]
    filling = [(cores // each, each) for each in sorted({*_powers(cores), cores})]
    return [(1, 1), *filling]


def _powers(most: int) -> list[int]:
    return [1 << exponent for exponent in range(most.bit_length())]


def _at_rates(
    asking: Asking, options: ScenarioOptions, rules: ScenarioRules, setting: Setting
) -> tuple[ScenarioRules, list[Trial]]:
    """The server scenario at the rate that was asked for, or at those that lead to the highest VALID one."""
    step_s = asking.step_s(setting, options.min_time_s)
    bound_s = options.latency_bound_s or float(f"{BOUND_STEPS * step_s:.2g}")
    if bound_s < step_s:
        raise UsageError(
            f"the latency bound of {format_duration(bound_s)} is shorter than the step",
            cause=f"a step takes {format_duration(step_s)} when nothing else waits, so that no rate is VALID",
            hint=f"--latency-bound {option_time(BOUND_STEPS * step_s)}",
        )
    rules = replace(rules, latency_bound_s=bound_s)
    trials: list[Trial] = []

    def is_valid(qps: float) -> bool:
        runs = [
            asking.trial(Load(scenario="server", rules=rules, qps=qps, seed=number), setting)
            for number in range(options.processes)
        ]
        trials.extend(runs)
        return all(judge("server", rules, run).is_valid for run in runs)

    if options.qps is not None:
        is_valid(options.qps)
        return rules, trials
    expected = SEARCH_LOADS * options.min_time_s / step_s * options.processes
    if expected > MOST_IN_SEARCH:
        raise UsageError(
            f"a search for the highest rate would hold about {expected:.2g} queries",
            cause=f"a result keeps the latency of each, and a file holds about {MOST_IN_SEARCH:,}",
            hint=f"--min-time {option_time(0.9 * options.min_time_s * MOST_IN_SEARCH / expected)}",
        )
    check_rate(_rounded(BEYOND**MOST_BEYOND / step_s), options.min_time_s)  # the highest that may be tried
    search_rates(1 / step_s, is_valid)
    return rules, trials


def search_rates(capacity_qps: float, is_valid: Callable[[float], bool]) -> tuple[float | None, float | None]:
    """Try rates until the highest VALID one and the lowest INVALID one above it are CLOSE; returns both, None for one
    that was not met. `capacity_qps` is what a step alone would allow."""
    valid: float | None = None
    invalid: float | None = None

    def look(qps: float) -> None:
        nonlocal valid, invalid
        if is_valid(qps := _rounded(qps)):
            valid = qps
        else:
            invalid = qps

    for share in (*LOADS, *(BEYOND**power for power in range(1, MOST_BEYOND + 1))):
        if invalid is None:
            look(share * capacity_qps)
    for _ in range(MOST_BELOW):
        if valid is None and invalid is not None:
            look(invalid / 2)
    for _ in range(MOST_BISECTIONS):
        if valid is not None and invalid is not None and invalid > CLOSE * valid:
            look(math.sqrt(valid * invalid))
    return valid, invalid


def _rounded(qps: float) -> float:
    """To three digits: a rate that can be asked for again."""
    return float(f"{qps:.3g}")


def environment_of(environments: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """That of all runs. Where these had several numbers of threads, the largest stands for them, and the variables that
    set it are left out. Raises MeasurementError if anything else changed between two runs."""
    threads = {environment.get("threads") for environment in environments}
    if len(threads) == 1:
        return common_environment(environments)
    most = max(each for each in threads if each)
    return common_environment(
        [{**each, "threads": most, "settings": _same_settings(environments)} for each in environments]
    )


def _same_settings(environments: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    first, *others = (environment.get("settings") or {} for environment in environments)
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
