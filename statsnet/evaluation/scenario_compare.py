"""Results of one scenario against a baseline; or the reason why they are not comparable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from statsnet.environment import differences
from statsnet.errors import UsageError
from statsnet.evaluation import verdicts
from statsnet.evaluation.scenario_rules import (
    figure_s,
    judge_all,
    percentile_name,
    queries_needed,
    rate_text,
    samples_per_s,
)
from statsnet.evaluation.standings import named
from statsnet.signatures.conversion import plain
from statsnet.signatures.intervals import Interval, latency_with_ci, ratio_with_ci
from statsnet.signatures.results import Subject
from statsnet.signatures.scenarios import ScenarioResult, Trial
from statsnet.signatures.timing import Timing
from statsnet.units import format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedScenario:
    """A result, and what it is called (its file)."""

    name: str
    result: ScenarioResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The one figure of a result, in seconds, less being better: the latency at the scenario's percentile; of the
    highest VALID rate the seconds per query, in an interval that ends at the lowest INVALID rate; offline the seconds
    per sample of the best instances and threads. `trials` are those that it was taken from."""

    what: str
    value: Interval
    trials: tuple[Trial, ...]
    is_rate: bool

    @property
    def text(self) -> str:
        return f"{rate_text(1 / self.value.value)} per s" if self.is_rate else format_duration(self.value.value)


def is_search(result: ScenarioResult) -> bool:
    """Whether the highest VALID rate was looked for."""
    return len({trial.qps for trial in result.trials}) > 1


def headline(result: ScenarioResult) -> Headline | str:
    """The figure of a result, or why it has none."""
    if result.scenario == "offline":
        return _best_throughput(result)
    if is_search(result):
        return _highest_rate(result)
    verdicts_of = judge_all(result)
    if bad := [each for each in verdicts_of if not each.is_valid]:
        return f"{len(bad)} of {len(verdicts_of)} runs are INVALID: {bad[0].reasons[0].text}"
    share = result.rules.percentile
    known = [figure_s(result.scenario, trial, share) for trial in result.trials]
    if None in known:
        return f"{percentile_name(share)} needs {queries_needed(share)} queries in every run"
    value = latency_with_ci([_sample(each) for each in known if each is not None])
    return Headline(what=f"{percentile_name(share)} latency", value=value, trials=result.trials, is_rate=False)


def _sample(seconds: float) -> Timing:
    return Timing(latency_s=(seconds,))


def _highest_rate(result: ScenarioResult) -> Headline | str:
    valid: dict[float, bool] = {}
    for trial, verdict in zip(result.trials, judge_all(result), strict=True):
        if trial.qps is not None:
            valid[trial.qps] = valid.get(trial.qps, True) and verdict.is_valid
    best = max((qps for qps, is_valid in valid.items() if is_valid), default=None)
    if best is None:
        return f"no rate is VALID, down to {rate_text(min(valid))} queries/s"
    above = min((qps for qps, is_valid in valid.items() if not is_valid and qps > best), default=None)
    interval = Interval(value=1 / best, low=1 / above if above else None, high=1 / best if above else None)
    trials = tuple(trial for trial in result.trials if trial.qps == best)
    return Headline(what="highest VALID rate", value=interval, trials=trials, is_rate=True)


def _best_throughput(result: ScenarioResult) -> Headline | str:
    groups: dict[tuple[int, int | None], list[Trial]] = {}
    verdicts = judge_all(result)
    for trial, verdict in zip(result.trials, verdicts, strict=True):
        if verdict.is_valid:
            groups.setdefault((trial.instances, trial.threads), []).append(trial)
    if not groups:
        return f"every run is INVALID: {verdicts[0].reasons[0].text}"
    (instances, threads), best = max(groups.items(), key=lambda item: fmean(map(samples_per_s, item[1])))
    value = latency_with_ci([_sample(1 / samples_per_s(trial)) for trial in best])
    what = f"throughput, {instances} × {threads or 'all'} threads"
    return Headline(what=what, value=value, trials=tuple(best), is_rate=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioStanding:
    """One result beside the baseline. `factor` is above 1 where it is slower, or carries less; None for the baseline
    and where there is nothing to rely on."""

    name: str
    machine: str
    headline: Headline | None
    factor: Interval | None
    verdict: str
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioStandings:
    """All results in the order in which they were given."""

    scenario: str
    subject: Subject
    rows: tuple[ScenarioStanding, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "scenario": self.scenario,
            "subject": plain(self.subject),
            "results": [
                {
                    "name": row.name,
                    "machine": row.machine,
                    "figure": row.headline and row.headline.what,
                    "seconds": row.headline and plain(row.headline.value),
                    "factor": row.factor and plain(row.factor),
                    "verdict": row.verdict,
                    "differences": list(row.differences),
                }
                for row in self.rows
            ],
        }


def scenario_standings(results: Sequence[NamedScenario], baseline: str | None = None) -> ScenarioStandings:
    """Compare each result with the baseline (default: the first). Raises UsageError for results of other scenarios,
    subjects or rules: these are not comparable."""
    chosen = named(results, baseline) if baseline else results[0]
    for each in results:
        _require_alike(chosen, each)
    theirs = headline(chosen.result)
    return ScenarioStandings(
        scenario=chosen.result.scenario,
        subject=chosen.result.subject,
        rows=tuple(_standing(each, chosen, theirs) for each in results),
    )


def _require_alike(a: NamedScenario, b: NamedScenario) -> None:
    x, y = a.result, b.result
    bounds = [f"{1e3 * (r.rules.latency_bound_s or 0.0):.9g}ms" for r in (x, y)]
    same_bound = f"run both with the same bound: --latency-bound {bounds[0]}"
    sides: tuple[tuple[str, object, object, str], ...] = (
        ("scenarios", x.scenario, y.scenario, "run both in the same --scenario"),
        ("subjects", x.subject.id, y.subject.id, "carry the same proxy, unchanged, to every device"),
        ("types", x.subject.type, y.subject.type, "compare runs with runs, and validations with validations"),
        ("latency bounds", bounds[0], bounds[1], same_bound),
        ("samples per query", x.rules.samples_per_query, y.rules.samples_per_query, "run both again"),
        ("rates", _rate(x), _rate(y), "run both with the same --qps, or both without"),
    )
    for what, left, right, hint in sides:
        if left != right:
            raise UsageError(
                "the results are not comparable",
                cause=f"{a.name} and {b.name} are of other {what}: {left} against {right}",
                hint=hint,
            )


def _rate(result: ScenarioResult) -> str:
    if result.scenario != "server":
        return "none"
    return "a search" if is_search(result) else f"{rate_text(result.trials[0].qps or 0.0)} queries/s"


def _standing(each: NamedScenario, baseline: NamedScenario, theirs: Headline | str) -> ScenarioStanding:
    """`theirs` is what the baseline is known by."""
    mine = theirs if each is baseline else headline(each.result)
    factor, verdict = None, "baseline"
    if isinstance(mine, str):
        verdict = f"not comparable: {mine}"
    elif each is not baseline and isinstance(theirs, str):
        verdict = f"not comparable: of the baseline, {theirs}"
    elif each is not baseline and isinstance(theirs, Headline):
        factor = _factor(theirs, mine, each.result.scenario, each.result.rules.percentile)
        verdict = verdicts.verdict(factor)
    return ScenarioStanding(
        name=each.name,
        machine=str(each.result.environment.get("device_name") or "unknown device"),
        headline=None if isinstance(mine, str) else mine,
        factor=factor,
        verdict=verdict,
        differences=tuple(differences(baseline.result.environment, each.result.environment)),
    )


def _factor(a: Headline, b: Headline, scenario: Any, share: float) -> Interval:
    """T_b / T_a. The highest VALID rates lie between what was VALID and what was not, and so does their factor."""
    if a.is_rate and scenario == "server":
        value = b.value.value / a.value.value
        if a.value.low is None or a.value.high is None or b.value.low is None or b.value.high is None:
            return Interval(value=value, low=None, high=None)
        return Interval(value=value, low=b.value.low / a.value.high, high=b.value.high / a.value.low)
    sides = [
        [_sample(seconds) for trial in of.trials if (seconds := figure_s(scenario, trial, share)) is not None]
        for of in (a, b)
    ]
    return ratio_with_ci(sides[0], sides[1])
