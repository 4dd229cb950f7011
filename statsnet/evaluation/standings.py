"""Many results against a baseline: which machine and setting, by what factor, at what energy and cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Protocol, TypeVar

from statsnet.display import Displayed
from statsnet.environment import fingerprint
from statsnet.environment.record import THREAD_VARIABLES
from statsnet.errors import UsageError
from statsnet.evaluation import verdicts
from statsnet.evaluation.compare import Comparison, as_means, compare
from statsnet.evaluation.speeds import speeds_of
from statsnet.signatures.conversion import plain
from statsnet.signatures.intervals import Interval, latency_with_ci
from statsnet.signatures.results import Result, Subject
from statsnet.signatures.timing import Timing
from statsnet.units import plural

SECONDS_PER_HOUR = 3600.0


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


Named = TypeVar("Named", bound=_HasName)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedResult:
    """A result, what it is called (its file), and what its machine costs per hour, if that is known."""

    name: str
    result: Result
    price_per_h: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One result. `comparison` is with the baseline of its subject: None for the baseline itself, and where there is no
    baseline, of which `not_comparable` tells the cause.

    `step` is the proxy's step time in seconds (None for a suite); energy in joules; cost in the unit of the price.
    """

    name: str
    subject: Subject
    machine: str
    setting: str
    is_baseline: bool
    environment: str
    step: Interval | None
    comparison: Comparison | None
    not_comparable: str | None
    energy_j_per_step: float | None
    energy_factor: float | None
    cost_per_step: float | None
    cost_factor: Interval | None

    @property
    def factor(self) -> Interval | None:
        """T / T of the baseline, if there is one to rely on."""
        if self.comparison is None or self.comparison.not_comparable:
            return None
        return self.comparison.factor

    @property
    def verdict(self) -> str:
        if self.is_baseline:
            return "baseline"
        if self.comparison is None:
            return f"not comparable: {self.not_comparable}"
        return self.comparison.verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """The geometric mean of the factors of several subjects on one machine under one setting. Its interval is of what
    was measured: it does not say how other proxies would do."""

    machine: str
    setting: str
    subjects: int
    factor: Interval

    @property
    def verdict(self) -> str:
        return verdicts.verdict(self.factor)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Standings(Displayed):
    """All results in the order in which they were given."""

    rows: tuple[Standing, ...]
    means: tuple[Mean, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "results": [_row_dict(row) for row in self.rows],
            "geometric_means": [{**plain(mean), "verdict": mean.verdict} for mean in self.means],
        }


def standings(results: Sequence[NamedResult], baselines: Sequence[str] = ()) -> Standings:
    """Compare each result with the baseline of its subject: the one of `baselines` (default: the first result); for
    other subjects, their result in the same environment.

    Raises UsageError if a baseline is none of the results, or if nothing can be compared.
    """
    found = listed(results, baselines)
    if not any(row.comparison for row in found.rows):
        chosen = named(results, baselines[0]) if baselines else results[0]
        for each in results:
            if each is not chosen:
                compare(chosen.result, each.result)  # says what is not alike
        raise UsageError("there is nothing to compare", cause="one result was given", hint="name two or more")
    return found


def listed(results: Sequence[NamedResult], baselines: Sequence[str] = ()) -> Standings:
    """As `standings`, also where there is nothing to compare: one result alone is a baseline."""
    first = results[0]
    chosen = [named(results, name) for name in baselines] or [first]
    by_subject: dict[tuple[str, str | None, str], NamedResult] = {}
    for each in chosen:
        if (other := by_subject.setdefault(_key(each.result), each)) is not each:
            raise UsageError(
                f"'{other.name}' and '{each.name}' are both given as baselines",
                cause="they are of one proxy, which has one",
                hint="leave one of them out",
            )
    for each in results:
        if fingerprint(each.result.environment) == fingerprint(chosen[0].result.environment):
            by_subject.setdefault(_key(each.result), each)
    rows = tuple(_standing(each, by_subject.get(_key(each.result)), chosen[0], results) for each in results)
    return Standings(rows=rows, means=_means(rows))


def named(results: Sequence[Named], name: str) -> Named:
    """The one of this name. Raises UsageError if there is none."""
    found = next((each for each in results if each.name == name), None)
    if found is None:
        raise UsageError(
            f"'{name}' is none of the results", cause="a baseline is one of them", hint="name it among the results too"
        )
    return found


def _key(result: Result) -> tuple[str, str | None, str]:
    return result.subject.type, result.subject.id, result.subject.mode


def _standing(
    each: NamedResult, baseline: NamedResult | None, chosen: NamedResult, results: Sequence[NamedResult]
) -> Standing:
    result, comparison, cause = each.result, None, None
    if baseline is None:
        cause = _why_not(each.result, chosen)
    elif baseline is not each:
        names = (baseline.name, each.name)
        try:
            comparison = compare(baseline.result, result, names=names)
        except UsageError as error:
            cause = f"{error.message}: {error.cause}"
    step = step_time(result.of_subject) if result.members is None else None
    energy_j, cost = _energy_j(result), _cost(each, step)
    is_usable = comparison is not None and comparison.not_comparable is None
    energy_before_j = _energy_j(baseline.result) if baseline else None
    return Standing(
        name=each.name,
        subject=result.subject,
        machine=str(result.environment["device_name"] or "unknown device"),
        setting=_setting(result.environment, [other.result.environment for other in results]),
        is_baseline=baseline is each,
        environment=fingerprint(result.environment),
        step=step,
        comparison=comparison,
        not_comparable=cause,
        energy_j_per_step=energy_j,
        energy_factor=energy_j / energy_before_j if is_usable and energy_j and energy_before_j else None,
        cost_per_step=cost,
        cost_factor=_cost_factor(comparison, each, baseline) if is_usable and comparison and baseline else None,
    )


def _why_not(result: Result, chosen: NamedResult) -> str:
    ours, theirs = result.subject, chosen.result.subject
    for name, left, right in (("type", ours.type, theirs.type), ("mode", ours.mode, theirs.mode)):
        if left != right:
            return f"it is of another {name} ({left}), and no such result is from the baseline's environment"
    return "it is of another proxy, and no result of that one is from the baseline's environment"


def _setting(environment: Mapping[str, Any], all_of: Sequence[Mapping[str, Any]]) -> str:
    """Threads and settings; and the versions of torch and CUDA where they are not the same in all results."""
    parts = []
    threads = environment.get("threads")
    if threads:
        parts.append(plural(threads, "thread"))
    for name in ("torch", "cuda"):
        if len({str(each.get(name)) for each in all_of}) > 1 and environment.get(name):
            parts.append(f"{name} {environment[name]}")
    settings = environment.get("settings") or {}
    shown = {key: value for key, value in settings.items() if key not in THREAD_VARIABLES}
    return ", ".join([*parts, *(f"{key}={value}" for key, value in sorted(shown.items()))])


def step_time(processes: Sequence[Timing]) -> Interval:
    """The time of a step in seconds: of the processes' medians; of steps that run at several speeds the mean, with all
    of these speeds in its interval."""
    speeds = speeds_of(processes)
    if not speeds.several:
        return latency_with_ci(processes)
    known = latency_with_ci(as_means(processes) if speeds.two else processes)
    low, high = (known.value if bound is None else bound for bound in (known.low, known.high))
    return Interval(value=known.value, low=min(low, speeds.fastest_s), high=max(high, speeds.slowest_s))


def _energy_j(result: Result) -> float | None:
    """Energy of a proxy's step: the median over its processes."""
    if result.members is not None:
        return None
    values = [p.power.energy_j_per_step for p in result.of_subject if p.power and p.power.energy_j_per_step is not None]
    return median(values) if values else None


def _cost(each: NamedResult, step: Interval | None) -> float | None:
    return None if step is None or each.price_per_h is None else each.price_per_h / SECONDS_PER_HOUR * step.value


def _cost_factor(comparison: Comparison, each: NamedResult, baseline: NamedResult) -> Interval | None:
    """The factor of cost: that of the times, times that of the prices."""
    if not each.price_per_h or not baseline.price_per_h:
        return None
    ratio, factor = each.price_per_h / baseline.price_per_h, comparison.factor
    low, high = (None if bound is None else ratio * bound for bound in (factor.low, factor.high))
    return Interval(value=ratio * factor.value, low=low, high=high)


def _means(rows: Sequence[Standing]) -> tuple[Mean, ...]:
    """One for each environment in which two or more subjects have a factor."""
    means = []
    for environment in dict.fromkeys(row.environment for row in rows):
        here = [row for row in rows if row.environment == environment and row.factor is not None]
        by_subject = [
            [row for row in here if row.subject == subject] for subject in dict.fromkeys(r.subject for r in here)
        ]
        if len(by_subject) < 2:
            continue
        factors = [_of_one_subject([row.factor for row in of_one if row.factor]) for of_one in by_subject]
        means.append(
            Mean(
                machine=here[0].machine,
                setting=here[0].setting,
                subjects=len(by_subject),
                factor=_mean_factor(factors),
            )
        )
    return tuple(means)


def _mean_factor(factors: Sequence[Interval]) -> Interval:
    """Geometric mean of independent factors: the half-widths of their logarithms add up as squares, over their
    number."""
    return _geometric_mean(factors, lambda widths: math.hypot(*widths) / len(widths))


def _of_one_subject(factors: Sequence[Interval]) -> Interval:
    """Geometric mean of factors against one baseline, whose error all of them share: no more certain than they are."""
    return _geometric_mean(factors, fmean)


def _geometric_mean(factors: Sequence[Interval], together: Callable[[Sequence[float]], float]) -> Interval:
    """`together` makes one of the half-widths of the factors' logarithms."""
    log = fmean(math.log(factor.value) for factor in factors)
    bounds = [
        (factor.value / factor.low, factor.high / factor.value) for factor in factors if factor.low and factor.high
    ]
    if len(bounds) < len(factors):
        return Interval(value=math.exp(log), low=None, high=None)
    down, up = (together([math.log(each[side]) for each in bounds]) for side in (0, 1))
    return Interval(value=math.exp(log), low=math.exp(log - down), high=math.exp(log + up))


def _row_dict(row: Standing) -> dict[str, Any]:
    return {
        "name": row.name,
        "subject": plain(row.subject),
        "machine": row.machine,
        "setting": row.setting,
        "baseline": row.is_baseline,
        "step_latency_s": row.step and plain(row.step),
        "comparison": row.comparison and row.comparison.to_dict(),
        "verdict": row.verdict,
        "energy_j_per_step": row.energy_j_per_step,
        "energy_factor": row.energy_factor,
        "cost_per_step": row.cost_per_step,
        "cost_factor": row.cost_factor and plain(row.cost_factor),
    }
