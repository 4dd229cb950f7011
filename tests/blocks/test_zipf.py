"""Indices that follow a Zipf law: in range, repeatable, and the more skewed the exponent says."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from statsnet.blocks.zipf import zipf_indices

EXPONENTS = [0.0, 0.5, 0.9, 0.9995, 1.0, 1.0005, 1.05, 1.5, 2.0, 3.0]


def draw(count: int, rows: int, exponent: float, seed: int = 0) -> Tensor:
    return zipf_indices(count, rows, exponent, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("rows", [1, 2, 1000, 7919, 2 * 7919, 40_000_000])
def test_indices_are_rows(exponent: float, rows: int) -> None:
    indices = draw(5000, rows, exponent)
    assert indices.dtype == torch.long
    assert indices.shape == (5000,)
    assert 0 <= int(indices.min()) <= int(indices.max()) < rows


def test_a_seed_decides() -> None:
    assert torch.equal(draw(100, 1000, 1.0, seed=3), draw(100, 1000, 1.0, seed=3))
    assert not torch.equal(draw(100, 1000, 1.0, seed=3), draw(100, 1000, 1.0, seed=4))


def test_a_higher_exponent_repeats_more_rows() -> None:
    distinct = [draw(20_000, 100_000, e).unique().numel() for e in (0.0, 0.5, 0.9, 1.0, 1.2, 1.5, 2.0)]
    assert distinct == sorted(distinct, reverse=True)
    assert distinct[0] > 5 * distinct[-1]


def test_zero_is_uniform() -> None:
    counts = torch.bincount(draw(100_000, 100, 0.0), minlength=100)
    assert counts.min() > 850
    assert counts.max() < 1150


def test_one_halves_with_twice_the_rank() -> None:
    """Ranks 2^k to 2^(k+1) are drawn equally often at exponent 1."""
    ordered = torch.bincount(draw(200_000, 1024, 1.0), minlength=1024).sort(descending=True).values
    octaves = [int(ordered[2**k : 2 ** (k + 1)].sum()) for k in range(3, 9)]
    assert max(octaves) < 1.15 * min(octaves)


@pytest.mark.parametrize("rows", [7919, 3 * 7919])
def test_every_number_of_rows_is_reached(rows: int) -> None:
    """Ranks are spread over the table, whatever its length has in common with the step between neighbours."""
    assert draw(20 * rows, rows, 0.0).unique().numel() > 0.99 * rows
