"""Operators chosen to stand for a suite on unknown devices: closed forms, and what the choice may not depend on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.across.operator_selection import USUAL, Choice, Trait, choose, covariance_of


def traits(count: int, classes: int) -> list[Trait]:
    return [
        Trait(operator="gemm", kernel_class=("gemm", i % classes), sizes=(float(i), float(i % 3))) for i in range(count)
    ]


def choice(
    time_s: np.ndarray, share: np.ndarray, *, budget_s: float, classes: int = 2, factors: np.ndarray | None = None,
    most: int = 44,
) -> Choice:  # fmt: skip
    known = np.ones((0, len(time_s))) if factors is None else factors
    return Choice(
        time_s=time_s, share=share / share.sum(), factors=known, traits=traits(len(time_s), classes), budget_s=budget_s,
        most=most,
    )  # fmt: skip


def test_a_suite_that_is_affordable_comes_out_itself() -> None:
    calls, time_s = np.array([4, 2, 8, 1]), np.array([1e-3, 3e-3, 5e-4, 2e-3])
    found = choose(choice(time_s, calls * time_s, budget_s=float(calls @ time_s)))
    assert found.counts.tolist() == calls.tolist()
    assert found.expected_error == pytest.approx(0.0, abs=1e-9)


def test_shares_are_kept_by_kernel_class_when_few_operators_are_allowed() -> None:
    rng = np.random.default_rng(0)
    time_s = rng.uniform(1e-4, 1e-3, 60)
    share = rng.uniform(0.5, 1.5, 60)
    asked = choice(time_s, share, budget_s=0.05, classes=2, most=10)
    counts = choose(asked).counts
    assert np.count_nonzero(counts) <= 10
    spent = counts * time_s / (counts @ time_s)
    assert spent[::2].sum() == pytest.approx(asked.share[::2].sum(), abs=0.03)
    assert np.count_nonzero(counts[::2]) > 1 and np.count_nonzero(counts[1::2]) > 1  # several shapes in each class


def test_an_operator_that_is_like_another_on_known_devices_stands_for_it() -> None:
    time_s = np.array([1.0, 1e-3, 1e-3])  # the first is too expensive for the budget
    factors = np.array([[2.0, 2.0, 0.5], [3.0, 3.0, 0.7], [0.4, 0.4, 1.5]])
    counts = choose(choice(time_s, np.array([1.0, 0.0, 0.0]), budget_s=0.05, classes=1, factors=factors)).counts
    assert counts[0] == 0
    assert counts[1] > 10 * counts[2]


@given(st.integers(2, 30), st.integers(0, 4), st.floats(1e-3, 1.0), st.integers(1, 12), st.integers(0, 1000))
@settings(max_examples=40)
def test_counts_are_whole_few_and_not_all_zero(n: int, known: int, budget_s: float, most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    factors = rng.lognormal(0.0, 0.5, (known, n))
    asked = choice(rng.lognormal(-6, 1.5, n), rng.random(n) + 0.01, budget_s=budget_s, factors=factors, most=most)
    found = choose(asked)
    assert (found.counts >= 0).all() and found.counts.any()
    assert np.count_nonzero(found.counts) <= most
    assert np.linalg.eigvalsh(covariance_of(asked, USUAL)).min() > -1e-9


def test_known_devices_weigh_less_where_shapes_scatter() -> None:
    """On them, operators of one class change by factors of their own: on another device it may be otherwise."""
    rng, time_s = np.random.default_rng(0), np.ones(40)
    shift = np.where(np.arange(40) % 2, 1.5, 0.5)  # the classes change apart

    def between_classes(scatter: float) -> float:
        asked = choice(time_s, time_s, budget_s=1.0, factors=shift * rng.lognormal(0.0, scatter, (3, 40)))
        covariance = covariance_of(asked, USUAL)
        return float(-covariance[::2, 1::2].mean())

    assert between_classes(0.05) > 4 * between_classes(0.6) > 0


def test_times_that_are_not_positive_are_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        choose(choice(np.array([0.0, 1.0]), np.array([0.5, 0.5]), budget_s=1.0))
