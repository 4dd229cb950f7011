"""Values for which an operator finds as much as it should (signatures/found.py). The source of these functions is
pasted into networks."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def hits(count: int, *shape: int, dtype: torch.dtype = torch.bool) -> Tensor:
    """`count` ones among zeros, at random places."""
    return (torch.randperm(math.prod(shape)) < count).reshape(shape).to(dtype)


def shares(total: int, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """Numbers that are nearly equal and add up to `total`."""
    count = math.prod(shape)
    return (torch.arange(count + 1) * total // max(1, count)).diff().reshape(shape).to(dtype)


def runs(count: int, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """The numbers below `count`, the highest first, each in a run of about equal length."""
    length = math.prod(shape)
    return (count - 1 - torch.arange(length) * count // max(1, length)).reshape(shape).to(dtype)


def distinct(count: int, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """The numbers below `count`, about equally often, in random order."""
    length = math.prod(shape)
    return (count - 1 - torch.randperm(length) * count // max(1, length)).reshape(shape).to(dtype)


FOUND_BY = {function.__name__: function for function in (hits, shares, runs, distinct)}
