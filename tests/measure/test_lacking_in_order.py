"""Running extremes, searches in order and pools of maxima, made of other operators: what torch itself gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from statsnet.measure.lacking_operators import buckets, places_in_order, running_extreme
from statsnet.measure.lacking_pools import adaptive_maximum

NO_NUMBER = float("nan")


def same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, tuple(expected) if isinstance(found, tuple) else expected, equal_nan=True)


@pytest.mark.parametrize("length", [1, 2, 7, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8, torch.bool])
def test_running_extremes_have_torch_s_values_and_places(length: int, dtype: torch.dtype) -> None:
    x = torch.randint(4, (3, length, 2)).to(dtype)
    same(running_extreme(x, 1, is_beyond=torch.ge), torch.cummax(x, 1))
    same(running_extreme(x, -2, is_beyond=torch.le), torch.cummin(x, -2))


def test_what_is_no_number_stays_the_running_extreme() -> None:
    x = torch.tensor([1.0, NO_NUMBER, 3.0, NO_NUMBER, 2.0])
    same(running_extreme(x, 0, is_beyond=torch.ge), torch.cummax(x, 0))
    same(running_extreme(x, 0, is_beyond=torch.le), torch.cummin(x, 0))


def test_a_single_number_is_its_own_extreme() -> None:
    x = torch.tensor(3.0)
    same(running_extreme(x, 0, is_beyond=torch.ge), torch.cummax(x, 0))


@pytest.mark.parametrize("length", [0, 1, 7, 8])
@pytest.mark.parametrize("right", [False, True])
def test_places_in_order_are_torch_s(length: int, right: bool) -> None:
    rows, x = torch.randn(3, length), torch.randn(3, 6).round()
    x[0] = torch.tensor([NO_NUMBER, 99.0, -99.0, 0.0, float("inf"), 1.0])
    order = rows.round().argsort(-1)
    ordered = rows.round().gather(-1, order)
    same(places_in_order(ordered, x, right=right), torch.searchsorted(ordered, x, right=right))
    same(places_in_order(rows.round(), x, sorter=order), torch.searchsorted(rows.round(), x, sorter=order))
    same(places_in_order(ordered, x, side="right", out_int32=True), torch.searchsorted(ordered, x, side="right").int())
    same(places_in_order(ordered[0], 1.0, right=right), torch.searchsorted(ordered[0], 1.0, right=right))
    same(buckets(x, ordered[0], right=right), torch.bucketize(x, ordered[0], right=right))


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [((2, 3, 7), (4,)), ((3, 7, 6), (5, 2)), ((2, 3, 6, 6), (3, 2)), ((1, 2, 3, 4), (5, 4)), ((2, 7, 6, 5), (3, 6, 2))],
)
def test_pools_of_maxima_have_torch_s_values_and_places(shape: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    """Also in a map without a batch, where several elements are the largest, and where windows overlap."""
    pools: Any = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)
    x = torch.randn(shape).round()
    same(adaptive_maximum(x, sizes), pools[len(sizes) - 1](x, sizes, return_indices=True))
