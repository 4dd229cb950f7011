"""Inputs with the statistics of real ones, from torch's global generator."""

from __future__ import annotations

import torch
from torch import Tensor


def images(batch: int, size: int, channels: int = 3) -> Tensor:
    """Normalised images: standard normal pixels, (batch, channels, size, size)."""
    return torch.randn(batch, channels, size, size)


def zipf_ids(rows: int, shape: tuple[int, ...], exponent: float = 1.05) -> Tensor:
    """Indices below `rows` where the k-th most frequent one has a share near k ** -exponent.

    The inverse of the power law's distribution function on [1, rows + 1), rounded down. Frequent indices come
    first, as where they are numbered in order of appearance.
    """
    uniform = torch.rand(shape, dtype=torch.float64)
    if exponent == 1.0:
        ranks = (rows + 1.0) ** uniform
    else:
        power = 1.0 - exponent
        ranks = (1.0 + uniform * ((rows + 1.0) ** power - 1.0)) ** (1.0 / power)
    return (ranks.long() - 1).clamp(0, rows - 1)


def tokens(vocabulary: int, batch: int, length: int) -> Tensor:
    """Token ids of text: word frequencies follow Zipf's law with exponent 1."""
    return zipf_ids(vocabulary, (batch, length), exponent=1.0)


def lengths(batch: int, longest: int, shortest: int) -> Tensor:
    """Lengths of padded sequences, uniform between the two; the first one fills the batch's length."""
    drawn = torch.randint(shortest, longest + 1, (batch,))
    return torch.cat([torch.full((1,), longest), drawn[1:]])
