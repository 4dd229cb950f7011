"""How much of a target's time is in kernel classes that candidates and proxies have, and which bars a fit misses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from synthesis_builders import measured, small_signature

from statsnet.signatures.coverage import bars_warning, coverage_of, coverage_warning
from statsnet.signatures.documents import EffortName, Fit, FitSummary, Uncovered
from statsnet.signatures.target import Target, target_of

MATMUL, RELU = "gemm|mkl", "activation|aten"


def target(*times_s: float) -> Target:
    return target_of(replace(small_signature(), measurements=(measured(times_s, (MATMUL, RELU)),)))


@pytest.mark.parametrize(
    ("tried", "achieved", "candidates", "proxy"),
    [
        ({MATMUL: 0.001, RELU: 0.001}, (0.006, 0.002), 1.0, 1.0),
        ({MATMUL: 0.001, RELU: 0.001}, (0.006, 0.0), 1.0, 0.75),
        ({MATMUL: 0.001}, (0.006, 0.0), 0.75, 0.75),
        ({}, (0.001, 0.009), 1.0, 1.0),  # how much of each is another distance
    ],
)
def test_shares_of_time(
    tried: dict[str, float], achieved: tuple[float, float], candidates: float, proxy: float
) -> None:
    coverage = coverage_of(target(0.006, 0.002), tried, target(*achieved))
    assert (coverage.candidates, coverage.proxy) == (pytest.approx(candidates), pytest.approx(proxy))
    assert sum(c.share for c in coverage.uncovered) == pytest.approx(1 - proxy)
    assert all(c.has_candidate == (c.kernel_class in tried) for c in coverage.uncovered)
    # A quarter of a step of 4 ms is 1 ms.
    assert all(c.fits_from_s == (0.004 if c.has_candidate else None) for c in coverage.uncovered)


@pytest.mark.parametrize(("covered", "warned"), [(None, False), (0.96, False), (0.94, True)])
def test_little_coverage_is_warned_of(covered: float | None, warned: bool) -> None:
    missing = tuple(Uncovered(kernel_class=f"k{i}|aten", share=0.05 / (i + 1), has_candidate=True) for i in range(10))
    summary = FitSummary(proxy_coverage=covered, candidate_coverage=1.0)
    warning = coverage_warning(Fit(spec="", environment={}, characteristics=(), summary=summary, uncovered=missing))
    assert (warning is not None) == warned
    if warning is not None:
        assert "covers 94.0%" in warning
        assert "k0|aten (5.0%), k1|aten (2.5%)" in warning
        assert "and 2 more" in warning


@pytest.mark.parametrize(
    ("shares", "least_s", "budget"),
    [
        ((0.04, 0.02, 0.04), (0.008, 0.012, 0.030), "--budget 12ms "),  # 90 % and the two cheapest
        ((0.04, 0.02, 0.04), (0.030, 0.008, 0.012), "--budget 12ms "),
        ((0.04, 0.06), (None, 0.02), "--budget 20ms "),
        ((0.06, 0.04), (None, 0.02), None),  # no candidate has the larger one
    ],
)
def test_a_budget_that_would_do(
    shares: tuple[float, ...], least_s: tuple[float | None, ...], budget: str | None
) -> None:
    missing = tuple(
        Uncovered(kernel_class="k|aten", share=share, has_candidate=True, fits_from_s=seconds)
        for share, seconds in zip(shares, least_s, strict=True)
    )
    summary = FitSummary(proxy_coverage=0.9, candidate_coverage=1.0)
    warning = coverage_warning(Fit(spec="", environment={}, characteristics=(), summary=summary, uncovered=missing))
    assert warning is not None
    assert ("--budget" in warning) == (budget is not None)
    assert budget is None or budget in warning


@pytest.mark.parametrize(
    ("categories", "kernel_classes", "flops", "bytes_", "named"),
    [
        (None, None, None, None, None),
        (0.03, 0.05, -0.05, 0.05, None),
        (0.031, 0.05, -0.05, 0.05, "its bar for categories."),
        (0.01, 0.02, -0.06, 0.03, "its bar for FLOP/s."),
        (0.01, 0.06, 0.06, -0.07, "its bars for kernel classes, FLOP/s and bytes/s."),
    ],
)
def test_bars_that_are_missed_are_named(
    categories: float | None, kernel_classes: float | None, flops: float | None, bytes_: float | None, named: str | None
) -> None:
    summary = FitSummary(
        category_total_variation=categories,
        kernel_class_total_variation=kernel_classes,
        flops_per_s_error=flops,
        bytes_per_s_error=bytes_,
    )
    warning = bars_warning(Fit(spec="", environment={}, characteristics=(), summary=summary))
    assert (warning is None) == (named is None)
    assert named is None or named in str(warning)


IDLE, LONGER, MORE = "on an idle machine with --fresh", "with --budget 200ms", "with --effort thorough"


@pytest.mark.parametrize(
    ("rates", "suite_s", "effort", "recorded", "helps"),
    [
        (0.1, 2.0, "normal", None, (IDLE, LONGER, MORE)),
        (0.0, 2.0, "normal", None, (LONGER, MORE)),
        (0.1, 0.15, "normal", None, (IDLE, MORE)),
        (0.1, 2.0, "thorough", None, (IDLE, LONGER)),
        (0.1, 2.0, "normal", {"model": 1.0}, (LONGER,)),
        (0.1, 0.15, "normal", {"model": 1.0}, ()),
    ],
)
def test_what_may_help_is_what_there_is_room_for(
    rates: float, suite_s: float, effort: EffortName, recorded: dict[str, float] | None, helps: tuple[str, ...]
) -> None:
    summary = FitSummary(
        category_total_variation=0.1, flops_per_s_error=rates, budget_s=0.1, suite_latency_s=suite_s
    )  # fmt: skip
    fit = Fit(spec="", environment={}, characteristics=(), summary=summary, effort=effort, recorded=recorded)
    warning = bars_warning(fit)
    assert warning is not None
    places = [warning.find(way) for way in (IDLE, LONGER, MORE)]
    assert [place > 0 for place in places] == [way in helps for way in (IDLE, LONGER, MORE)]
    assert sorted(found := [p for p in places if p > 0]) == found
