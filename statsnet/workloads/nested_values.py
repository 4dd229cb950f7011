"""Nested tensors of random values (signatures/nested.py). The source of this function is pasted into networks."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor


def nested(lengths: tuple, *width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Rows of such lengths, each of vectors (or more) of this width, in one tensor."""
    rows = [torch.randn(length, *width).to(dtype) for length in lengths]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls this layout a prototype
        return torch.nested.nested_tensor(rows)


NESTED_BY = {"nested": nested}
