"""Whether suite and proxy follow a setting alike: F_P / F_S - 1, from times alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from statsnet.environment import differences
from statsnet.errors import MeasurementError
from statsnet.evaluation.run_proxy import proxy_job
from statsnet.evaluation.suite import SuiteMember, common_environment, process_of, suite_result
from statsnet.measure.process import Progress
from statsnet.measure.rounds import interleave
from statsnet.measure.side_by_side import side_by_side
from statsnet.proxy.folder import ProxyFolder
from statsnet.signatures.intervals import (
    Interval,
    Member,
    paired_ratio,
    paired_suite_factor,
    process_median_s,
    ratio_with_ci,
    suite_factor,
)
from statsnet.workloads.settings import BASELINE, Setting

Outcomes = Sequence[Sequence[Mapping[str, Any]]]

HALF_WIDTH = 0.015
"""Rounds go on while the 95 % interval of the logarithm of a factor reaches further than this to either side."""


def measure_fidelity(
    proxy: ProxyFolder,
    members: Sequence[SuiteMember],
    settings: Sequence[Setting],
    *,
    rounds: int,
    most_rounds: int,
    device: str,
    on_progress: Progress | None = None,
    **limits: float,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The suite's result at the baseline, and the factors of suite and proxy under every setting.

    Every round runs every member and then the proxy, each in fresh processes, one for the baseline and one for each
    setting, which take turns; after `rounds` of them until every factor is known to HALF_WIDTH, or `most_rounds` have
    run. A setting in which a member or the proxy does not run is left out and named in `failed`.

    Raises UsageError for a setting that a replayed member can not follow, MeasurementError where no setting is left.
    """
    sweep = [BASELINE, *settings]
    groups = _groups(proxy, members, sweep, device, limits)
    failed: dict[int, str] = {}

    def measured(job: Mapping[str, Any], *, timeout_s: float | None = None) -> dict[str, Any]:
        due = {place: each for place, each in enumerate(job["jobs"]) if place not in failed}
        found = side_by_side({**job, "jobs": list(due.values())}, timeout_s=timeout_s)["outcomes"]
        outcomes = dict(zip(due, found, strict=True))
        failed.update({place: o["failed"] for place, o in outcomes.items() if "failed" in o})
        if len(failed) == len(settings):
            name, why = sweep[min(failed)].name, failed[min(failed)]
            raise MeasurementError(f"nothing runs under {name}", cause=why, hint="leave it out of --settings")
        return {"outcomes": outcomes}

    def by_setting(outcomes: Outcomes) -> dict[int, Outcomes]:
        return {
            place: [[found["outcomes"][place] for found in subject] for subject in outcomes]
            for place in range(len(sweep))
            if place not in failed
        }

    def all_factors(outcomes: Outcomes) -> list[Interval]:
        before, *after = by_setting(outcomes).values()
        return [f for part in after for f in factors(members, before, part)]

    outcomes = interleave(
        groups,
        rounds,
        most=most_rounds,
        enough=lambda found: known_well(all_factors(found)),
        on_progress=on_progress,
        run=measured,
    )
    parts = by_setting(outcomes)
    result = suite_result(proxy.spec, members, parts[0][:-1], parts[0][-1])
    return result, {
        "rounds": len(outcomes[0]),
        "widest_half_width": widest_half_width(all_factors(outcomes)),
        "baseline_noise": suite_noise(members, parts[0]),
        "settings": [
            setting_row(sweep[place], members, parts[0], part) for place, part in parts.items() if place
        ],
        "failed": [{"name": sweep[place].name, "cause": failed[place]} for place in sorted(failed)],
    }


def _groups(
    proxy: ProxyFolder,
    members: Sequence[SuiteMember],
    sweep: Sequence[Setting],
    device: str,
    limits: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """A job of `side_by_side` for every member, and one for the proxy."""
    jobs = {
        m.name: [m.timing_job(proxy.spec, device, setting, **limits) for setting in sweep] for m in members
    }
    jobs["the proxy"] = [
        {**proxy_job(proxy, device=device, setting=setting, **limits), "label": f"the proxy ({setting.name})"}
        for setting in sweep
    ]
    return [
        {
            "kind": "side_by_side",
            "label": name,
            "jobs": [{**job, "may_fail": place > 0} for place, job in enumerate(group)],
        }
        for name, group in jobs.items()
    ]


def factors(members: Sequence[SuiteMember], before: Outcomes, after: Outcomes) -> tuple[Interval, Interval]:
    """Of suite and proxy; the last entry of `before` and `after` is the proxy's."""
    a, b = ([[process_of(o) for o in row] for row in side] for side in (before, after))
    suite = paired_suite_factor(
        [Member(rate=m.weight, a=x, b=y) for m, x, y in zip(members, a[:-1], b[:-1], strict=True)]
    )
    return suite, paired_ratio(a[-1], b[-1])


def widest_half_width(found: Sequence[Interval]) -> float | None:
    """Half of the widest interval, on the logarithm; None where one is not known."""
    if any(f.low is None or f.high is None for f in found):
        return None
    return max((math.log(f.high / f.low) / 2 for f in found if f.low and f.high), default=0.0)


def known_well(found: Sequence[Interval]) -> bool:
    widest = widest_half_width(found)
    return widest is not None and widest <= HALF_WIDTH


def setting_row(
    setting: Setting, members: Sequence[SuiteMember], before: Outcomes, after: Outcomes
) -> dict[str, Any]:
    """Factors and error of one setting; the last entry of `before` and `after` is the proxy's."""
    a, b = ([[process_of(o) for o in row] for row in side] for side in (before, after))
    suite, proxy = factors(members, before, after)
    here = common_environment([o for row in before for o in row])
    there = common_environment([o for row in after for o in row])
    return {
        "name": setting.name,
        "suite_factor": interval_dict(suite),
        "proxy_factor": interval_dict(proxy),
        "error": interval_dict(relative_error(suite, proxy)),
        "suite_noise": suite_noise(members, after),
        "members": [
            {"name": m.name, "evidence": m.evidence, **interval_dict(paired_ratio(x, y))}
            for m, x, y in zip(members, a[:-1], b[:-1], strict=True)
        ],
        "differences": differences(here, there),
        "member_processes": b[:-1],
        "proxy_processes": b[-1],
    }


def moved_row(
    members: Sequence[SuiteMember], outcomes: Outcomes, proxy_latency_s_reference: float
) -> dict[str, Any]:
    """Factors and error from the environment where the proxy was made to this one; the last entry of `outcomes` is the
    proxy's. The times there are taken as exact: the intervals are those of the times here."""

    def there(latency_s: float) -> list[dict[str, Any]]:
        return [{"latency_s": [latency_s]}] * 2

    here = [[process_of(o) for o in row] for row in outcomes]
    before = [there(m.latency_s_reference) for m in members]
    suite = suite_factor(
        [Member(rate=m.rate, a=x, b=y) for m, x, y in zip(members, before, here[:-1], strict=True)]
    )
    proxy = ratio_with_ci(there(proxy_latency_s_reference), here[-1])
    return {
        "suite_factor": interval_dict(suite),
        "proxy_factor": interval_dict(proxy),
        "error": interval_dict(relative_error(suite, proxy)),
        "members": [
            {"name": m.name, "evidence": m.evidence, **interval_dict(ratio_with_ci(x, y))}
            for m, x, y in zip(members, before, here[:-1], strict=True)
        ],
    }


def relative_error(suite: Interval, proxy: Interval) -> Interval:
    """F_P / F_S - 1; the intervals are independent: their half widths add in squares, on the logarithm."""
    value = proxy.value / suite.value
    if suite.low is None or suite.high is None or proxy.low is None or proxy.high is None:
        return Interval(value=value - 1, low=None, high=None)
    half = math.hypot(math.log(suite.high / suite.low) / 2, math.log(proxy.high / proxy.low) / 2)
    return Interval(value=value - 1, low=value * math.exp(-half) - 1, high=value * math.exp(half) - 1)


def suite_noise(members: Sequence[SuiteMember], outcomes: Outcomes) -> float | None:
    """Slowest over fastest round of the suite's weighted time, less 1; None for one round."""
    rounds = len(outcomes[0])
    sums = [
        sum(m.rate * process_median_s(process_of(row[r])) for m, row in zip(members, outcomes, strict=False))
        for r in range(rounds)
    ]
    return max(sums) / min(sums) - 1 if rounds > 1 else None


def interval_dict(interval: Interval) -> dict[str, float | None]:
    return {"value": interval.value, "low": interval.low, "high": interval.high}
