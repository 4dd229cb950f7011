from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from statsnet.errors import MeasurementError
from statsnet.signatures.intervals import (
    Interval,
    Member,
    geometric_mean,
    latency_with_ci,
    paired_mean_factor,
    paired_ratio,
    paired_suite_factor,
    process_median_s,
    ratio_with_ci,
    suite_factor,
)
from statsnet.signatures.timing import Timing


def processes(*medians: float) -> list[Timing]:
    return [Timing(latency_s=(m * 0.5, m, m * 7)) for m in medians]


def test_within_a_process_the_median_counts() -> None:
    assert process_median_s(Timing(latency_s=(1.0, 100.0, 2.0))) == 2.0


@pytest.mark.parametrize("times", [[], [1.0, 0.0], [1.0, -1.0], [1.0, math.nan], [math.inf]])
def test_invalid_times_never_become_a_number(times: list[float]) -> None:
    with pytest.raises(MeasurementError):
        process_median_s(Timing(latency_s=tuple(times)))


@pytest.mark.parametrize("time_s", [0.0, -1.0, math.nan, math.inf])
def test_invalid_windows_never_become_a_number(time_s: float) -> None:
    good, bad = windows(1.0, 1.0), windows(1.0, time_s)
    for a, b in ((good, bad), (bad, good)):
        with pytest.raises(MeasurementError):
            paired_ratio([a], [b])


def test_no_process_is_no_number() -> None:
    with pytest.raises(MeasurementError):
        latency_with_ci([])


def test_latency_is_students_interval_on_the_logarithm() -> None:
    logs = [0.0, 0.1, 0.4]
    latency = latency_with_ci(processes(*map(math.exp, logs)))
    low, high = stats.t.interval(0.95, 2, loc=np.mean(logs), scale=stats.sem(logs))
    assert latency.value == pytest.approx(math.exp(np.mean(logs)))
    assert (latency.low, latency.high) == (pytest.approx(math.exp(low)), pytest.approx(math.exp(high)))


def test_ratio_is_welchs_interval_on_the_logarithm() -> None:
    a, b = [0.0, 0.2, 0.1, 0.05], [1.0, 1.3, 0.8]
    ratio = ratio_with_ci(processes(*map(math.exp, a)), processes(*map(math.exp, b)))
    welch = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    assert ratio.value == pytest.approx(math.exp(np.mean(b) - np.mean(a)))
    assert ratio.low == pytest.approx(math.exp(welch.low))
    assert ratio.high == pytest.approx(math.exp(welch.high))
    assert ratio.significant


def test_the_inverse_ratio_has_the_inverse_interval() -> None:
    a, b = processes(1.0, 1.1, 1.05), processes(2.0, 2.1, 1.9)
    there, back = ratio_with_ci(a, b), ratio_with_ci(b, a)
    assert back.value == pytest.approx(1 / there.value)
    assert there.low is not None
    assert back.high == pytest.approx(1 / there.low)


def test_one_process_gives_a_value_without_an_interval() -> None:
    assert ratio_with_ci(processes(1.0), processes(2.0, 2.0)) == Interval(value=2.0, low=None, high=None)
    assert ratio_with_ci(processes(1.0), processes(2.0, 2.0)).significant is None


def test_equal_processes_give_a_point() -> None:
    assert ratio_with_ci(processes(1.0, 1.0), processes(2.0, 2.0)) == Interval(value=2.0, low=2.0, high=2.0)


def test_a_suite_of_one_is_a_ratio() -> None:
    a, b = processes(1.0, 1.1, 1.05), processes(2.0, 2.1, 1.9)
    suite, ratio = suite_factor([Member(rate=0.3, a=a, b=b)]), ratio_with_ci(a, b)
    assert suite.value == pytest.approx(ratio.value)
    assert (suite.low, suite.high) == (pytest.approx(ratio.low), pytest.approx(ratio.high))


def test_a_suites_factor_in_closed_form() -> None:
    # Shares 0.75 and 0.25 of the time at e0, which is a; the second member takes 5 times as long in b.
    members = [
        Member(rate=0.75 / 2.0, a=processes(2.0, 2.0), b=processes(2.0, 2.0)),
        Member(rate=0.25 / 4.0, a=processes(4.0, 4.0), b=processes(20.0, 20.0)),
    ]
    assert suite_factor(members).value == pytest.approx(0.75 * 1 + 0.25 * 5)


def test_a_suites_interval_holds_what_it_promises() -> None:
    random = np.random.default_rng(1)
    shares, factors, repeats, hits = (0.5, 0.3, 0.2), (1.0, 2.0, 0.5), 400, 0
    truth = sum(w * f for w, f in zip(shares, factors, strict=True))

    def measured(seconds: float) -> list[Timing]:
        return [Timing(latency_s=(seconds * math.exp(e),)) for e in random.normal(0, 0.06, 4)]

    for _ in range(repeats):
        factor = suite_factor(
            [Member(rate=w / 3.0, a=measured(3.0), b=measured(3.0 * f)) for w, f in zip(shares, factors, strict=True)]
        )
        assert factor.low is not None
        assert factor.high is not None
        hits += factor.low <= truth <= factor.high
    assert 0.93 <= hits / repeats <= 0.99


def test_a_suites_interval_knows_that_a_whole_round_may_be_slower() -> None:
    """Of 29 members and two rounds, the second of side b takes a tenth longer for all of them."""
    members = [Member(rate=1.0, a=processes(1.0, 1.0), b=processes(1.0, 1.1)) for _ in range(29)]
    factor = suite_factor(members)
    assert factor.value == pytest.approx(math.sqrt(1.1))
    rounds = stats.t.interval(0.95, 1, loc=math.log(1.1) / 2, scale=stats.sem([0.0, math.log(1.1)]))
    assert (factor.low, factor.high) == (pytest.approx(math.exp(rounds[0])), pytest.approx(math.exp(rounds[1])))
    assert not factor.significant


def test_geometric_mean() -> None:
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert geometric_mean([1.0, 10.0, 100.0]) == pytest.approx(10.0)
    for bad in ([], [0.0]):
        with pytest.raises(ValueError, match=r"mean requires|math domain|positive"):
            geometric_mean(bad)


def windows(*medians: float) -> Timing:
    return Timing(latency_s=tuple(medians), window_latency_s=tuple(medians))


def test_what_disturbs_two_windows_at_once_does_not_count() -> None:
    disturbed = [1.0, 5.0, 1.0, 2.0]
    a, b = windows(*disturbed), windows(*(2 * t for t in disturbed))
    assert paired_ratio([a, a], [b, b]) == Interval(value=pytest.approx(2.0), low=pytest.approx(2.0),
                                                    high=pytest.approx(2.0))  # fmt: skip


def test_pairs_are_the_samples_of_a_factor() -> None:
    logs = [0.5, 0.7, 0.6, 0.9]
    a = [windows(math.exp(drift)) for drift in (0.0, 2.0, -1.0, 0.3)]
    b = [windows(math.exp(drift + log)) for drift, log in zip((0.0, 2.0, -1.0, 0.3), logs, strict=True)]
    factor = paired_ratio(a, b)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(logs), scale=stats.sem(logs))
    assert factor.value == pytest.approx(math.exp(np.mean(logs)))
    assert (factor.low, factor.high) == (pytest.approx(math.exp(low)), pytest.approx(math.exp(high)))


def test_turns_are_the_samples_of_a_factor_and_the_wildest_do_not_count() -> None:
    logs = [0.5, 0.52, 0.47, 0.51, 0.49, 0.5, 0.48, 0.53, 0.9, -3.0]
    drift = [0.0, 2.0, -1.0, 0.3, 0.0, 1.0, 1.0, 0.2, 0.0, 0.5]
    a = windows(*map(math.exp, drift))
    b = windows(*(math.exp(d + log) for d, log in zip(drift, logs, strict=True)))
    factor = paired_ratio([a], [b])
    mean = stats.trim_mean(logs, 0.2)
    yuen = stats.ttest_ind(logs, [0.0] * 10, equal_var=False, trim=0.2)
    half = stats.t.ppf(0.975, 5) * mean / yuen.statistic
    assert factor.value == pytest.approx(math.exp(mean))
    assert (factor.low, factor.high) == (
        pytest.approx(math.exp(mean - half)),
        pytest.approx(math.exp(mean + half)),
    )


def coverage(groups: int, luck: float, scatter: float, repeats: int = 600) -> tuple[float, float]:
    """How often the interval of 12 turns in each of `groups` holds the true factor, and its median half-width. A turn
    in ten is disturbed, by which the factor is as often raised as lowered; all turns of a pair share a luck that no
    turn shows."""
    random = np.random.default_rng(groups)
    hits, halves = 0, []
    before = [windows(*[1.0] * 12)] * groups
    for _ in range(repeats):
        disturbed = random.random((groups, 12)) < 0.1
        logs = random.normal(0, np.where(disturbed, 10 * scatter, scatter)) + random.normal(0, luck, (groups, 1))
        factor = paired_ratio(before, [windows(*np.exp(row)) for row in logs])
        assert factor.low is not None
        assert factor.high is not None
        hits += factor.low <= 1.0 <= factor.high
        halves.append(math.log(factor.high / factor.low) / 2)
    return hits / repeats, float(np.median(halves))


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize(("luck", "scatter"), [(0.005, 0.06), (0.02, 0.06), (0.3, 0.01)])
def test_the_interval_of_turns_holds_what_it_promises(groups: int, luck: float, scatter: float) -> None:
    """With three standard errors to spare, whether luck or turns decide, and most of all where both do."""
    held, _ = coverage(groups, luck, scatter)
    assert held >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 600)


def test_one_group_of_turns_without_luck_holds_what_it_promises() -> None:
    held, _ = coverage(1, 0.0, 0.06)
    assert 0.93 <= held <= 0.98


@pytest.mark.parametrize(("groups", "times_wider"), [(3, 2.5), (5, 1.5), (8, 1.25)])
def test_turns_without_luck_make_the_interval_little_wider_than_they_need(groups: int, times_wider: float) -> None:
    """Student's t of n - 1 ÷ that of all turns is 2.1, 1.4 and 1.2."""
    _, half = coverage(groups, 0.0, 0.02, repeats=200)
    all_turns = stats.norm.ppf(0.975) * 0.02 / math.sqrt(groups * 12 * 0.6)
    assert half <= times_wider * all_turns


def test_pairs_that_differ_by_more_than_their_turns_explain_are_the_samples() -> None:
    """As by chance alone, where turns are exact; and a pair that took more turns counts no more than the others."""
    logs = [0.5, 0.6, 0.55]
    a = [windows(*[1.0] * turns) for turns in (30, 5, 5)]
    b = [windows(*[math.exp(log)] * turns) for log, turns in zip(logs, (30, 5, 5), strict=True)]
    factor = paired_ratio(a, b)
    low, high = stats.t.interval(0.95, 2, loc=np.mean(logs), scale=stats.sem(logs))
    assert factor.value == pytest.approx(math.exp(np.mean(logs)))
    assert (factor.low, factor.high) == (pytest.approx(math.exp(low)), pytest.approx(math.exp(high)))


def test_a_single_turn_has_no_interval() -> None:
    assert paired_ratio([windows(1.0)], [windows(2.0)]) == Interval(value=2.0, low=None, high=None)


def test_weighted_factors_are_averaged() -> None:
    members = [
        Member(rate=0.75, a=[windows(1.0), windows(3.0)], b=[windows(1.0), windows(3.0)]),
        Member(rate=0.25, a=[windows(10.0), windows(20.0)], b=[windows(50.0), windows(100.0)]),
    ]
    assert paired_mean_factor(members).value == pytest.approx(0.75 * 1 + 0.25 * 5)


def test_a_paired_suite_weighs_its_factors_by_the_time_on_the_first_side() -> None:
    """Equal rates; the first takes 4 s and then 8 s, the second 1 s: 9 s in place of 5 s."""
    members = [
        Member(rate=0.5, a=[windows(4.0)] * 2, b=[windows(8.0)] * 2),
        Member(rate=0.5, a=[windows(1.0)] * 2, b=[windows(1.0)] * 2),
    ]
    assert paired_suite_factor(members).value == pytest.approx(1.8)


@pytest.mark.parametrize("took_turns", [True, False])
def test_a_paired_suite_is_the_suite_of_the_same_processes(took_turns: bool) -> None:
    random = np.random.default_rng(3)
    kind = windows if took_turns else processes

    def sampled(seconds: float) -> list[Timing]:
        timings = [kind(seconds * math.exp(e)) for e in random.normal(0, 0.1, 4)]
        return timings if took_turns else [t[0] for t in timings]  # type: ignore[index]

    members = [Member(rate=r, a=sampled(a), b=sampled(b)) for r, a, b in ((1.0, 4.0, 8.0), (3.0, 1.0, 1.0))]
    assert paired_suite_factor(members).value == pytest.approx(suite_factor(members).value)


def test_what_slows_a_whole_round_does_not_widen_a_paired_suites_interval() -> None:
    slow = (1.0, 1.5, 0.8)
    members = [
        Member(rate=0.5, a=[windows(4.0 * s) for s in slow], b=[windows(8.0 * s) for s in slow]),
        Member(rate=0.5, a=[windows(s) for s in slow], b=[windows(s) for s in slow]),
    ]
    factor = paired_suite_factor(members)
    assert (factor.low, factor.high) == (pytest.approx(1.8), pytest.approx(1.8))


@pytest.mark.parametrize("groups", [2, 3])
def test_a_paired_suites_interval_holds_what_it_promises(groups: int) -> None:
    """Where the baseline's shares are not the reference's, and its times are not exact either. For sums of few samples
    each, Satterthwaite's degrees of freedom promise a point or two too much."""
    random = np.random.default_rng(groups)
    true_a, true_b, repeats, hits = (4.0, 1.0, 2.0), (8.0, 1.0, 1.0), 500, 0
    truth = sum(true_b) / sum(true_a)
    for _ in range(repeats):
        speed = np.exp(random.normal(0, 0.3, groups))  # of the machine, in each round
        members = []
        for a, b in zip(true_a, true_b, strict=True):
            base = a * speed * np.exp(random.normal(0, 0.05, groups))
            factor = b / a * np.exp(random.normal(0, 0.03, groups))
            turns = np.exp(random.normal(0, 0.02, (groups, 8)))
            members.append(
                Member(
                    rate=0.5,
                    a=[windows(*[t] * 8) for t in base],
                    b=[windows(*(t * f * row)) for t, f, row in zip(base, factor, turns, strict=True)],
                )
            )
        result = paired_suite_factor(members)
        assert result.low is not None
        assert result.high is not None
        hits += result.low <= truth <= result.high
    assert hits / repeats >= 0.92


def test_without_windows_medians_count() -> None:
    assert paired_ratio(processes(1.0, 2.0), processes(3.0, 6.0)).value == pytest.approx(3.0)
