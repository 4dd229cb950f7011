"""From the runs of suite and proxy in a scenario to factors: by how much did each percentile change? Knows no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from statsnet.evaluation.scenario_rules import figure_s, is_overloaded, percentile_name, queries_needed
from statsnet.signatures.intervals import Interval, ratio_with_ci, relative_error
from statsnet.signatures.scenarios import ScenarioName, ScenarioResult, SuiteBeside, Trial
from statsnet.signatures.timing import Timing

FIGURES = (0.5, 0.9, 0.99)
"""Percentiles whose factors are compared."""

TOO_FAST = "{}, queries come faster than steps end: give a lower --qps"

MIDDLE, TAIL = 0.5, 0.99

OTHER_TAIL = 1.2
"""The tail of a proxy is not its suite's if p99 over p50 of one is so many times that of the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioFactors:
    """By which factor a figure (`p99`, or offline the `time per sample`) of suite and proxy changed under a setting,
    and how far the proxy's is off."""

    setting: str
    figure: str
    suite: Interval
    proxy: Interval
    error: Interval


def scenario_factors(result: ScenarioResult) -> tuple[tuple[ScenarioFactors, ...], tuple[str, ...]]:
    """Factors under each setting; and which are not known, and why."""
    if result.beside is None:
        return (), ()
    if any(map(is_overloaded, (*result.trials, *result.beside.proxy))):
        return (), (TOO_FAST.format("at the baseline"),)
    rows: list[ScenarioFactors] = []
    missing: dict[str, str] = {}
    for under in result.beside.settings:
        if any(map(is_overloaded, (*under.suite, *under.proxy))):
            missing[under.name] = TOO_FAST.format(f"under {under.name}")
            continue
        for share in (0.5,) if result.scenario == "offline" else FIGURES:
            sides = [
                (_times(result.scenario, before, share), _times(result.scenario, after, share))
                for before, after in ((result.trials, under.suite), (result.beside.proxy, under.proxy))
            ]
            if any(times is None for side in sides for times in side):
                word = percentile_name(share)
                missing[word] = f"{word} needs {queries_needed(share)} queries in every run: raise --min-time"
                continue
            suite, proxy = (ratio_with_ci(before or (), after or ()) for before, after in sides)
            figure = "time per sample" if result.scenario == "offline" else percentile_name(share)
            rows.append(
                ScenarioFactors(
                    setting=under.name, figure=figure, suite=suite, proxy=proxy, error=relative_error(suite, proxy)
                )
            )
    return tuple(rows), tuple(missing.values())


def tail_notes(result: ScenarioResult) -> tuple[str, ...]:
    """Where the proxy's tail cannot stand for its suite's, in words: at the baseline, and under each setting. Nothing
    of percentiles that are not known, and nothing offline, where queries have no latency of their own."""
    if result.beside is None or result.scenario == "offline":
        return ()
    cases = [("at the baseline", result.trials, result.beside.proxy)]
    cases += [(f"under {each.name}", each.suite, each.proxy) for each in result.beside.settings]
    found = []
    for where, *sides in cases:
        suite, proxy = (_tail(result.scenario, trials) for trials in sides)
        if suite is not None and proxy is not None and not 1 / OTHER_TAIL < proxy / suite < OTHER_TAIL:
            ratios = f"the suite's p99 is {suite:.3g} times its p50, the proxy's {proxy:.3g} times"
            found.append(f"{where} {ratios}: {_why(result.beside, suite > proxy)}")
    return tuple(found)


def _tail(scenario: ScenarioName, trials: Sequence[Trial]) -> float | None:
    """p99 over p50, the geometric mean over runs; None where one of them is not known."""
    pairs = [(figure_s(scenario, trial, MIDDLE), figure_s(scenario, trial, TAIL)) for trial in trials]
    ratios = [tail / middle for middle, tail in pairs if middle and tail]
    return geometric_mean(ratios) if len(ratios) == len(pairs) else None


def _why(beside: SuiteBeside, is_longer: bool) -> str:
    if not is_longer:
        return "the proxy's runs were disturbed, or queued more; its p99 cannot stand for the suite's"
    slowest = max(beside.members, key=lambda m: m.weight / m.query_share if m.query_share else 0.0)
    if not 1 - TAIL <= slowest.query_share < 1 - MIDDLE:  # the longest step is not what lies between p50 and p99
        return "steps of the suite differ more than the proxy's, so the proxy's p99 cannot stand for the suite's"
    return (
        f"its steps differ in length (the longest are those of {slowest.name}, {slowest.query_share:.1%} of the "
        "queries) and the proxy's are all alike, so its p99 cannot stand for the suite's"
    )


def _times(scenario: ScenarioName, trials: Sequence[Trial], share: float) -> list[Timing] | None:
    """One figure for each trial, as the one sample that it is; None where one is not known."""
    known = [figure_s(scenario, trial, share) for trial in trials]
    return None if None in known else [Timing(latency_s=(each,)) for each in known if each is not None]
