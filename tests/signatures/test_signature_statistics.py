"""Distances between distributions: closed forms and properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statsnet.signatures.comparison import is_good
from statsnet.signatures.documents import Distances
from statsnet.signatures.statistics import (
    earth_movers_distance,
    faster_half,
    intensity_bin,
    shares,
    total_variation,
)

amounts = st.dictionaries(st.integers(-6, 10), st.floats(0, 1e6), max_size=8)
filled = amounts.filter(lambda d: sum(d.values()) > 0)


def test_shares() -> None:
    assert shares([("a", 1.0), ("b", 1.0), ("a", 2.0), ("c", 0.0)]) == {"a": 0.75, "b": 0.25}
    assert shares({"a": 5e-324, "b": 5e-324}) == {"a": 0.5, "b": 0.5}
    assert shares([]) == shares({"a": 0.0}) == {}
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="not an amount"):
            shares({"a": bad})


@given(filled)
def test_shares_sum_to_one(p: dict[int, float]) -> None:
    assert sum(shares(p).values()) == pytest.approx(1)


def test_total_variation_closed_forms() -> None:
    assert total_variation({"a": 1}, {"b": 1}) == 1
    assert total_variation({"a": 0.5, "b": 0.5}, {"a": 0.75, "b": 0.25}) == pytest.approx(0.25)
    assert total_variation({"a": 1}, {"a": 7}) == 0
    assert total_variation({}, {}) == 0
    assert total_variation({}, {"a": 1}) == 1


@given(amounts, amounts, amounts)
def test_total_variation_is_a_bounded_metric(p: dict[int, float], q: dict[int, float], r: dict[int, float]) -> None:
    distance = total_variation(p, q)
    assert 0 <= distance <= 1
    assert distance == total_variation(q, p)
    assert total_variation(p, p) == 0
    assert total_variation(p, r) <= distance + total_variation(q, r) + 1e-9


def test_earth_movers_distance_closed_forms() -> None:
    assert earth_movers_distance({0: 1}, {3: 1}) == 3
    assert earth_movers_distance({0: 1}, {-1: 0.5, 1: 0.5}) == pytest.approx(1)
    assert earth_movers_distance({0: 0.5, 4: 0.5}, {0: 0.5, 6: 0.5}) == pytest.approx(1)
    assert earth_movers_distance({}, {}) == 0
    with pytest.raises(ValueError, match="empty"):
        earth_movers_distance({}, {0: 1})


@given(filled, filled, filled)
def test_earth_movers_distance_is_a_metric(p: dict[int, float], q: dict[int, float], r: dict[int, float]) -> None:
    distance = earth_movers_distance(p, q)
    assert distance == pytest.approx(earth_movers_distance(q, p))
    assert earth_movers_distance(p, p) == 0
    assert earth_movers_distance(p, r) <= distance + earth_movers_distance(q, r) + 1e-9
    assert 0 <= distance <= 16 + 1e-9
    # Moving mass d bins costs at most d per unit, and at least one per unit that differs.
    assert total_variation(p, q) - 1e-9 <= distance <= 16 * total_variation(p, q) + 1e-9


@given(filled, st.integers(-5, 5))
def test_shifting_a_histogram_moves_all_of_it(p: dict[int, float], shift: int) -> None:
    assert earth_movers_distance(p, {k + shift: v for k, v in p.items()}) == pytest.approx(abs(shift))


@pytest.mark.parametrize(
    ("flops", "nbytes", "expected"),
    [
        (0, 100, -6), (0, 0, -6), (1, 0, 10), (24, 3, 3), (1, 12, -4), (1, 1, 0), (2, 1, 1), (1.999, 1, 0),
        (1, 64, -6), (1, 1000, -6), (1024, 1, 10), (1023, 1, 9), (1e300, 1e-300, 10), (1e-300, 1e300, -6),
    ],
)  # fmt: skip
def test_intensity_bins(flops: float, nbytes: float, expected: int) -> None:
    assert intensity_bin(flops, nbytes) == expected


@pytest.mark.parametrize(
    ("distances", "good"),
    [
        (Distances(), True),
        (Distances(category_total_variation=0.03, kernel_class_total_variation=0.05, bytes_per_s_error=-0.05), True),
        (Distances(category_total_variation=0.031), False),
        (Distances(kernel_class_total_variation=0.06), False),
        (Distances(flops_per_s_error=0.06), False),
        (Distances(bytes_per_s_error=-0.06), False),
        (Distances(launches_per_s_ratio=1.5), True),
    ],
)
def test_every_bar_must_be_met(distances: Distances, good: bool) -> None:
    """Launches are reported, and no bar."""
    assert is_good(distances) == good


@given(st.lists(st.floats(1e-6, 1e3), min_size=2, max_size=20))
def test_the_faster_half_keeps_its_order(times_s: list[float]) -> None:
    kept = faster_half(times_s)
    assert len(kept) >= len(times_s) / 2
    assert kept == [time_s for time_s in times_s if time_s <= max(kept)]
    assert faster_half([3.0, 9.0, 1.0, 2.0, 8.0]) == [3.0, 1.0, 2.0]
    assert faster_half([5.0]) == [5.0]
