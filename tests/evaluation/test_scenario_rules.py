"""Percentiles and verdicts of scenarios against closed forms."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenario_results import answers, trial

from statsnet.evaluation.scenario_rules import (
    CONFIDENCE,
    figure_s,
    judge,
    percentile,
    percentile_name,
    queries_needed,
    rate_text,
    samples_per_s,
)
from statsnet.signatures.scenarios import ScenarioRules, Trial

RULES = ScenarioRules(min_time_s=1.0, percentile=0.99)
SERVER = replace(RULES, latency_bound_s=0.050)


def chance(n: int, late: int, share: float) -> float:
    """P(Binomial(n, 1 - share) <= late), term by term."""
    return sum(math.comb(n, k) * (1 - share) ** k * share ** (n - k) for k in range(late + 1))


@pytest.mark.parametrize(
    ("share", "late", "queries"), [(0.9, 1, 64), (0.99, 1, 662), (0.99, 0, 459), (0.9, 0, 44), (0.5, 1, 11)]
)
def test_queries_needed_are_those_of_mlperf(share: float, late: int, queries: int) -> None:
    assert queries_needed(share, late) == queries


@given(st.floats(0.3, 0.97), st.integers(0, 12))
def test_queries_needed_are_the_fewest(share: float, late: int) -> None:
    n = queries_needed(share, late)
    assert chance(n, late, share) < 1 - CONFIDENCE <= chance(n - 1, late, share)


def test_a_percentile_needs_enough_queries() -> None:
    few, enough = percentile([1.0] * 661, 0.99), percentile([1.0] * 662, 0.99)
    assert (few.needs, few.latency_s, few.bound_s) == (662, None, None)
    assert enough.latency_s == enough.bound_s == 1.0


def test_the_bound_lets_go_of_as_many_late_queries_as_are_allowed() -> None:
    at_least = percentile(range(1, 65), 0.9)  # 64 queries allow one late one, which is the bound itself
    assert (at_least.latency_s, at_least.bound_s) == (58, 64)
    many = percentile(range(1, 1001), 0.9)
    allowed = max(late for late in range(1, 100) if queries_needed(0.9, late) <= 1000)
    assert many.bound_s == 1000 - allowed + 1
    assert many.latency_s == 901 < many.bound_s


@given(st.lists(st.floats(1e-6, 10.0), min_size=64, max_size=400))
def test_order_does_not_matter_and_the_bound_is_above(latency_s: list[float]) -> None:
    found = percentile(latency_s, 0.9)
    assert found == percentile(sorted(latency_s), 0.9)
    assert found.latency_s is not None and found.bound_s is not None
    assert found.latency_s <= found.bound_s <= max(latency_s)


def test_names() -> None:
    assert [percentile_name(share) for share in (0.5, 0.99, 0.999)] == ["p50", "p99", "p99.9"]
    assert [rate_text(rate) for rate in (12.3456, 0.5, 50_000)] == ["12.35", "0.5", "50000"]


class TestVerdicts:
    def test_valid(self) -> None:
        assert str(judge("single-stream", RULES, trial([0.01] * 662))) == "VALID"
        assert judge("server", SERVER, trial([0.01] * 459, qps=10)).is_valid
        assert judge("offline", RULES, trial([0.01])).is_valid

    def test_too_few_queries_name_the_time_that_is_enough(self) -> None:
        (reason,) = judge("single-stream", RULES, trial([0.01] * 331)).reasons
        assert reason.text == "p99 needs 662 queries, 331 ran"
        assert reason.hint == "--min-time 2.2s"
        (reason,) = judge("offline", replace(RULES, min_queries=20), trial([0.01] * 10)).reasons
        assert reason.text == "10 queries ran of at least 20"

    def test_too_short(self) -> None:
        (reason,) = judge("single-stream", RULES, trial([0.01] * 700, duration_s=0.55)).reasons
        assert reason.text == "it took 0.55 s of at least 1 s"
        assert reason.hint == "measure again, or --min-time 500ms"

    def test_over_the_bound(self) -> None:
        (reason,) = judge("server", SERVER, trial([0.01] * 900 + [0.073] * 100, qps=20)).reasons
        assert reason.text == "p99 is 73 ms, over the bound of 50 ms"
        assert reason.hint == "a --qps below 20, or a longer --latency-bound"

    def test_a_run_that_was_ended_since_too_many_waited_is_over_the_bound(self) -> None:
        (reason,) = judge("server", SERVER, trial([1.0] * 30, qps=20, duration_s=0.1, says_valid=False)).reasons
        assert "over the bound" in reason.text

    def test_late_queries_ask_for_more_of_them(self) -> None:
        """Three late of 500 are fewer than 1 %, but may be luck."""
        run = trial([0.01] * 497 + [0.06] * 3, qps=20)
        (reason,) = judge("server", SERVER, run).reasons
        needs = queries_needed(0.99, 3)
        assert reason.text == f"p99 is not known to be under 50 ms: with 3 late, {needs} queries are needed, 500 ran"
        assert reason.hint == f"--min-time {needs / 500 * 1.1:.2g}s"
        assert judge("server", SERVER, trial([0.01] * (needs - 3) + [0.06] * 3, qps=20)).is_valid

    def test_what_the_generator_alone_finds(self) -> None:
        (reason,) = judge("single-stream", RULES, trial([0.01] * 700, says_valid=False, says="errors")).reasons
        assert reason.text == "the load generator says so: errors"
        # Where there is a reason already, its own is the same in other words.
        assert len(judge("single-stream", RULES, trial([0.01] * 10, says_valid=False)).reasons) == 1

    def test_one_instance_that_is_too_short_is_enough(self) -> None:
        run = Trial(answers=(answers([0.01]), answers([0.01], duration_s=0.5)))
        assert not judge("offline", RULES, run).is_valid


def test_throughput_counts_until_the_last_instance_is_done() -> None:
    run = Trial(answers=(answers([0.1, 0.2], completed_s=2.0), answers([0.1] * 8, completed_s=4.0)))
    assert samples_per_s(run) == 10 / 4
    assert figure_s("offline", run, 0.5) == 0.4
    assert figure_s("single-stream", run, 0.5) is None
