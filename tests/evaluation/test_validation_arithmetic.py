"""The arithmetic of a validation, on made-up outcomes."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from statsnet.errors import UsageError
from statsnet.evaluation.factors import (
    factors,
    moved_row,
    relative_error,
    setting_row,
    suite_noise,
    widest_half_width,
)
from statsnet.evaluation.suite import SuiteMember
from statsnet.evaluation.validate import _moved, _rows
from statsnet.proxy.private_fit import rounded_figures
from statsnet.signatures.documents import Distances
from statsnet.signatures.intervals import Interval
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.results import CharacteristicAgain
from statsnet.signatures.timing import Timing
from statsnet.workloads.settings import parse_settings


def suite_member(name: str, weight: float, reference_s: float, target: str | None = "x/y") -> SuiteMember:
    return SuiteMember(
        name=name, weight=weight, latency_s_reference=reference_s, batch=None, preset=None, target=target,
        optimizer=None, peak_bytes=None, signature=None,
    )  # fmt: skip


def outcome(time_s: float) -> Timing:
    return Timing(latency_s=(time_s,))


def test_a_setting_weighs_members_by_their_reference_time() -> None:
    members = [suite_member("a", 0.25, 1.0), suite_member("b", 0.75, 0.1)]
    before = [[outcome(1.0), outcome(1.0)], [outcome(0.1), outcome(0.1)], [outcome(0.01), outcome(0.01)]]
    after = [[outcome(2.0), outcome(2.0)], [outcome(0.4), outcome(0.4)], [outcome(0.03), outcome(0.03)]]
    (setting,) = parse_settings("threads=1")
    row = setting_row(setting, members, before, after)
    # 0.25 * 2 + 0.75 * 4
    assert row.suite_factor.value == pytest.approx(3.5)
    assert row.proxy_factor.value == pytest.approx(3.0)
    assert row.error.value == pytest.approx(3.0 / 3.5 - 1)
    assert row.proxy_processes == tuple(after[-1])
    assert [m.value for m in row.members] == pytest.approx([2.0, 4.0])


def test_a_setting_weighs_members_by_their_time_at_a_baseline_that_is_not_the_reference() -> None:
    """Weights one half, reference times 1 s; here 4 s and 1 s. The setting doubles the first: 9 s in place of 5 s."""
    members = [suite_member("a", 0.5, 1.0), suite_member("b", 0.5, 1.0)]
    before = [[outcome(4.0)] * 2, [outcome(1.0)] * 2, [outcome(0.05)] * 2]
    after = [[outcome(8.0)] * 2, [outcome(1.0)] * 2, [outcome(0.09)] * 2]
    (setting,) = parse_settings("threads=1")
    row = setting_row(setting, members, before, after)
    assert row.suite_factor.value == pytest.approx(1.8)
    assert row.error.value == pytest.approx(0.0)


def test_a_proxy_that_moved_is_held_against_the_times_where_it_was_made() -> None:
    members = [suite_member("a", 0.25, 1.0), suite_member("b", 0.75, 0.1)]
    here = [[outcome(2.0), outcome(2.0)], [outcome(0.4), outcome(0.4)], [outcome(0.03), outcome(0.031)]]
    row = moved_row(members, here, 0.01)
    assert asdict(row.suite_factor) == pytest.approx({"value": 3.5, "low": 3.5, "high": 3.5})
    proxy = row.proxy_factor
    assert proxy.value == pytest.approx(math.sqrt(3.0 * 3.1))
    assert proxy.low is not None and proxy.high is not None
    assert proxy.low < 3.0 < 3.1 < proxy.high
    assert row.error.value == pytest.approx(math.sqrt(3.0 * 3.1) / 3.5 - 1)
    assert [m.value for m in row.members] == pytest.approx([2.0, 4.0])


def test_noise_is_the_spread_of_the_weighted_time_between_rounds() -> None:
    members = [suite_member("a", 0.5, 1.0), suite_member("b", 0.5, 2.0)]
    rounds = [[outcome(1.0), outcome(1.2)], [outcome(2.0), outcome(2.0)], [outcome(1.0), outcome(9.0)]]
    assert suite_noise(members, rounds) == pytest.approx(0.1)
    assert suite_noise(members, [row[:1] for row in rounds]) is None
    longer = [[*rounds[0], outcome(50.0)], *rounds[1:]]
    assert suite_noise(members, longer) == pytest.approx(0.1), "the third round has not run for all"


def test_the_error_is_known_no_better_than_either_factor() -> None:
    suite = Interval(value=2.0, low=1.9, high=2.1)
    exact = Interval(value=2.0, low=2.0, high=2.0)
    error = relative_error(suite, exact)
    assert error.value == 0
    assert error.low == pytest.approx((1.9 / 2.1) ** 0.5 - 1)
    assert relative_error(suite, Interval(value=2.0, low=None, high=None)).low is None


def test_how_well_the_least_certain_factor_is_known() -> None:
    members = [suite_member("a", 1.0, 1.0)]
    exact = [[outcome(1.0), outcome(1.0)], [outcome(0.1), outcome(0.1)]]
    noisy = [[outcome(2.0), outcome(2.0)], [outcome(0.2), outcome(0.21)]]
    assert widest_half_width(factors(members, exact, exact)) == 0.0
    suite, proxy = factors(members, exact, noisy)
    assert widest_half_width([suite, proxy]) == pytest.approx(math.log(proxy.high / proxy.low) / 2)
    assert widest_half_width(factors(members, [row[:1] for row in exact], [row[:1] for row in noisy])) is None


def test_a_replay_does_not_follow_a_dtype() -> None:
    (setting,) = parse_settings("dtype=bfloat16")
    with pytest.raises(UsageError, match="cannot be measured under 'dtype=bfloat16'"):
        suite_member("signature-1", 1.0, 1.0, target=None).timing_job(cast(Any, None), "cpu", setting)


def test_a_profile_that_scatters_is_not_stable() -> None:
    def profile(*samples: float) -> Measurement:
        known: dict[str, Any] = dict.fromkeys(
            ("framework_time_s", "idle_time_s", "unexplained_share", "coefficient_of_variation")
        )
        lists: dict[str, Any] = dict.fromkeys(
            ("warmup_latency_s", "profiled_latency_s", "cluster_time_s", "kernels", "kernel_class"), ()
        )
        return Measurement(environment={}, step_latency_s=samples, launches=1.0, **lists, **known)

    assert profile(1.0, 1.0, 1.01, 9.0).timing.stable is False
    assert profile(1.0, 1.0, 1.01, 1.0, 1.0, 1.0, 9.0).timing.stable is True


class _Target:
    """As much of a target as `characteristics` reads."""

    bytes_per_s = launches_per_s = arithmetic_intensity = time_per_launch_s = 1.0
    operator_share = 1.0
    framework_share = idle_share = largest_peak_bytes = power_w = None
    intensity_histogram: dict[int, float] = {}  # noqa: RUF012
    kernel_class_shares = phase_shares = counters = intensity_histogram

    def __init__(self, flops_per_s: float, **categories: float) -> None:
        self.flops_per_s = flops_per_s
        self.category_shares = categories


def _again(targets: Any, achieved: Any, *, is_private: bool = False) -> list[CharacteristicAgain]:
    return _rows(targets, achieved, {("rate", "flops_per_s"): 99.0}, is_private=is_private)


def test_of_private_members_few_digits_are_told() -> None:
    """Errors against exact rates would give the rates away."""
    (row,) = (r for r in _again([_Target(123.456)], [_Target(100.0)], is_private=True) if r.name == "flops_per_s")
    assert (row.target, row.achieved) == (123.0, 100.0)
    assert row.error == pytest.approx(100 / 123 - 1)
    exact = Distances(category_total_variation=0.123456, flops_per_s_error=-0.18999, idle_share_achieved=0.123456)
    told = rounded_figures(exact, [row])
    assert (told.category_total_variation, told.idle_share_achieved) == (0.123, 0.123456)
    assert told.flops_per_s_error == row.error
    assert rounded_figures(exact, kept=frozenset()).idle_share_achieved == 0.123


def test_a_class_that_one_round_missed_counts_as_no_share() -> None:
    targets = [_Target(100.0, gemm=0.9, sort=0.1), _Target(110.0, gemm=1.0)]
    achieved = [_Target(126.0, gemm=1.0), _Target(126.0, gemm=1.0)]
    rows = {row.name: row for row in _again(targets, achieved)}
    assert rows["sort"].target == pytest.approx(0.05)
    assert rows["sort"].error == pytest.approx(-0.05)
    assert rows["sort"].noise == pytest.approx(0.1)
    assert rows["flops_per_s"].recorded == 99.0
    assert rows["flops_per_s"].error == pytest.approx(0.2)
    assert rows["flops_per_s"].noise == pytest.approx(0.1)
    assert rows["peak_memory"].error is None


@pytest.mark.parametrize(
    ("changes", "recorded", "is_known", "notes"),
    [
        ({}, None, True, []),
        ({"is_rounded": True}, None, False, ["rounded sizes or were not found: a"]),
        ({"own": True}, None, False, ["rounded sizes or were not found: a"]),
        ({}, {"model": 1.0}, True, ["are predictions"]),
    ],
)
def test_how_far_it_moved_needs_times_from_there(
    changes: dict[str, Any], recorded: dict[str, float] | None, is_known: bool, notes: list[str]
) -> None:
    fit = SimpleNamespace(summary=SimpleNamespace(step_latency_s=0.01), recorded=recorded)
    proxy: Any = SimpleNamespace(fit=lambda: fit)
    processes = SimpleNamespace(processes=(outcome(0.02), outcome(0.02)))
    result: Any = SimpleNamespace(members=[processes], proxy=processes)
    said: list[str] = []
    moved = _moved(proxy, [replace(suite_member("a", 1.0, 0.01), **changes)], result, said)
    assert (moved is not None) == is_known
    assert [text in note for text, note in zip(notes, said, strict=True)] == [True] * len(notes)
