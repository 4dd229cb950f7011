"""Products of groups of rows, as experts have them, in graphs: torch's rule for them (2.13) knows bfloat16 alone."""

from __future__ import annotations

from typing import Any

import torch

from statsnet.workloads.torch_operators import find_overload

GROUPED = find_overload("aten._grouped_mm.default")
"""None in versions of torch that lack it."""


def empty_product(
    a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor | None = None, bias: Any = None, out_dtype: Any = None
) -> torch.Tensor:
    """A tensor like the result of `aten._grouped_mm`, in any dtype."""
    *batch, rows, _ = a.shape
    groups = batch if b.dim() == 3 else []  # the others split the rows of one result
    if ends is not None and a.dim() == b.dim() == 2:
        groups = [ends.shape[0]]
    return a.new_empty((*groups, rows, b.shape[-1]), dtype=out_dtype)


def let_graphs_hold_them() -> None:
    """From here on, graphs that this process captures or compiles hold them in all dtypes that a CPU runs."""
    if GROUPED is not None:
        torch.library.register_fake("aten::_grouped_mm", empty_product)
