"""From the runs of suite and proxy in a scenario to factors: by how much did each percentile change? Knows no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from statsnet.evaluation.scenario_rules import figure_s, percentile_name, queries_needed
from statsnet.signatures.intervals import Interval, ratio_with_ci, relative_error
from statsnet.signatures.scenarios import ScenarioName, ScenarioResult, Trial
from statsnet.signatures.timing import Timing

FIGURES = (0.5, 0.9, 0.99)
"""Percentiles whose factors are compared."""


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
    """Factors under each setting; and which percentiles are not known, and why."""
    if result.beside is None:
        return (), ()
    rows: list[ScenarioFactors] = []
    missing: dict[str, str] = {}
    for under in result.beside.settings:
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


def _times(scenario: ScenarioName, trials: Sequence[Trial], share: float) -> list[Timing] | None:
    """One figure for each trial, as the one sample that it is; None where one is not known."""
    known = [figure_s(scenario, trial, share) for trial in trials]
    return None if None in known else [Timing(latency_s=(each,)) for each in known if each is not None]
