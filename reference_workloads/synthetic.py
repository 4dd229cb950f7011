"""Inputs with the statistics of real ones, from torch's global generator."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from statsnet.blocks.zipf import zipf_indices


def images(batch: int, size: int, channels: int = 3) -> Tensor:
    """Normalised images: standard normal pixels, (batch, channels, size, size)."""
    return torch.randn(batch, channels, size, size)


def zipf_ids(rows: int, shape: tuple[int, ...], exponent: float = 1.05) -> Tensor:
    """Indices that follow a Zipf law; frequent ones come first, as in vocabularies sorted by frequency."""
    return zipf_indices(math.prod(shape), rows, exponent, None, spread=1).reshape(shape)


def tokens(vocabulary: int, batch: int, length: int) -> Tensor:
    """Token ids of text: word frequencies follow Zipf's law with exponent 1."""
    return zipf_ids(vocabulary, (batch, length), exponent=1.0)


def lengths(batch: int, longest: int, shortest: int) -> Tensor:
    """Lengths of padded sequences, uniform between the two; the first one fills the batch's length."""
    drawn = torch.randint(shortest, longest + 1, (batch,))
    return torch.cat([torch.full((1,), longest), drawn[1:]])
