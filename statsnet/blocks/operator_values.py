"""Tensors for operators to work on. Their source is pasted into networks."""

from __future__ import annotations

import torch
from torch import Tensor

from statsnet.blocks.base import numbers
from statsnet.workloads.found_values import FOUND_BY
from statsnet.workloads.nested_values import NESTED_BY
from statsnet.workloads.packed_values import PACKED_BY
from statsnet.workloads.sparse_values import SPARSE_BY


def normal(*shape: int, dtype: torch.dtype | None = None) -> Tensor:
    """Numbers of both signs."""
    return numbers(*shape).to(dtype or torch.float32)


def positive(*shape: int, dtype: torch.dtype | None = None) -> Tensor:
    """Numbers above a half."""
    return normal(*shape).abs().add(0.5).to(dtype or torch.float32)


def fraction(*shape: int, dtype: torch.dtype | None = None) -> Tensor:
    """Numbers between 0 and 1."""
    return normal(*shape).sigmoid().to(dtype or torch.float32)


def below(high: int, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """Whole numbers from 0 to `high` - 1."""
    return torch.randint(high, shape).to(dtype)


def flags(*shape: int) -> Tensor:
    """True and false in turn, at random."""
    return torch.randint(2, shape).bool()


def bags(length: int, count: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """Where `count` bags (or groups, or sequences) of equal length begin."""
    return (torch.arange(count) * length).to(dtype)


MADE_BY = {
    **{function.__name__: function for function in (normal, positive, fraction, below, flags, bags)},
    **FOUND_BY,
    **SPARSE_BY,
    **PACKED_BY,
    **NESTED_BY,
}
