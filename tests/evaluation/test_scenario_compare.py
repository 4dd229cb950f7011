"""Results of one scenario compared, and what is not comparable."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console
from scenario_results import scenario_result, trial

from statsnet.errors import UsageError
from statsnet.evaluation.scenario_compare import NamedScenario, headline, scenario_standings
from statsnet.reporting.scenarios import scenario_report, scenario_standings_csv, scenario_standings_report
from statsnet.signatures.scenarios import ScenarioResult, Trial


def named(*results: ScenarioResult) -> list[NamedScenario]:
    return [NamedScenario(name=f"{number}.json", result=result) for number, result in enumerate(results, 1)]


def runs(*latencies_s: float) -> list[Trial]:
    return [trial([latency_s] * 700) for latency_s in latencies_s]


def at_rates(*rates: tuple[float, float]) -> list[Trial]:
    """A run for each (rate, latency)."""
    return [trial([latency_s] * 700, qps=qps) for qps, latency_s in rates]


def test_a_stream_is_compared_by_its_percentile() -> None:
    a, b = scenario_result("single-stream", *runs(0.010, 0.0101)), scenario_result("single-stream", *runs(0.02, 0.0202))
    rows = scenario_standings(named(a, b)).rows
    assert rows[0].verdict == "baseline"
    factor = rows[1].factor
    assert factor is not None and factor.low is not None and factor.high is not None
    assert factor.value == pytest.approx(2)
    assert factor.low < 2 < factor.high
    assert rows[1].verdict.endswith("times slower")
    (alone,) = scenario_standings(named(scenario_result("single-stream", *runs(0.01)), b), "2.json").rows[:1]
    assert "cannot be told from one process" in alone.verdict


def test_the_highest_valid_rate_lies_between_two() -> None:
    a = scenario_result("server", *at_rates((30, 0.01), (50, 0.02), (55, 0.09)), bound_s=0.05)
    b = scenario_result("server", *at_rates((60, 0.01), (100, 0.02), (110, 0.09)), bound_s=0.05)
    found = headline(a)
    assert not isinstance(found, str) and found.text == "50 per s"
    factor = scenario_standings(named(a, b)).rows[1].factor
    assert factor is not None
    assert (factor.value, factor.low, factor.high) == pytest.approx((0.5, 50 / 110, 55 / 100))
    none = scenario_result("server", *at_rates((30, 0.09), (15, 0.08)), bound_s=0.05)
    assert headline(none) == "no rate is VALID, down to 15 queries/s"
    shown = Console(width=200, file=io.StringIO())
    shown.print(*scenario_report(none))
    assert shown.file.getvalue().count("try: a longer --latency-bound") == 1  # type: ignore[attr-defined]


def test_offline_takes_the_best_instances_and_threads() -> None:
    slow, fast = (
        scenario_result("offline", *(trial([1.0] * n, completed_s=1.0, threads=t) for t, n in ((1, few), (2, many))))
        for few, many in ((10, 20), (100, 40))
    )
    found = headline(fast)
    assert not isinstance(found, str) and found.what == "throughput, 1 × 1 threads"
    factor = scenario_standings(named(slow, fast)).rows[1].factor
    assert factor is not None and factor.value == pytest.approx(20 / 100)


def test_an_invalid_result_is_not_comparable() -> None:
    good, bad = scenario_result("single-stream", *runs(0.01)), scenario_result("single-stream", trial([0.01] * 20))
    for results in ((good, bad), (bad, good)):
        verdict = scenario_standings(named(*results)).rows[1].verdict
        assert verdict.startswith("not comparable: ") and "p90 needs 64 queries, 20 ran" in verdict


STREAM = scenario_result("single-stream", *runs(0.01))
SERVER = scenario_result("server", *at_rates((30, 0.01)), bound_s=0.05)


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        (STREAM, SERVER, "other scenarios: single-stream against server"),
        (STREAM, scenario_result("single-stream", *runs(0.01), subject="b"), "other subjects"),
        (SERVER, scenario_result("server", *at_rates((30, 0.01)), bound_s=0.06), "latency bounds: 50ms against 60ms"),
        (SERVER, scenario_result("server", *at_rates((31, 0.01)), bound_s=0.05), "rates: 30 queries/s against 31"),
        (STREAM, replace(STREAM, rules=replace(STREAM.rules, samples_per_query=8)), "samples per query"),
    ],
)
def test_what_is_not_comparable(a: ScenarioResult, b: ScenarioResult, text: str) -> None:
    with pytest.raises(UsageError, match="the results are not comparable") as refused:
        scenario_standings(named(a, b))
    assert text in refused.value.cause
    assert refused.value.hint


def test_tables_and_csv() -> None:
    found = scenario_standings(named(STREAM, STREAM))
    assert len(scenario_standings_csv(found).splitlines()) == 3
    assert scenario_standings_report(found)
    with pytest.raises(UsageError, match="none of the results"):
        scenario_standings(named(STREAM), "x.json")
    assert scenario_report(SERVER)
