"""Operators that other runtimes lack or get wrong, in others that they have. The same numbers, but for rounding.

Most read and multiply about as much as torch's own kernel, so that what is timed is what somebody would deploy. Not so
a running product, which takes a pass over its tensor for each doubling of the axis where torch takes one; distances of
few rows or another power than 2, which make all gaps in memory; and pools of uneven windows, which are dense products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.export import ExportedProgram

MOST_ROWS = 25
"""For more, torch finds Euclidean distances by a product."""


def rewritten(program: ExportedProgram, table: Mapping[Any, Callable[..., Any]]) -> ExportedProgram:
    """The same program; the operators of this table that are in it are what the table makes of them."""
    held = {node.target for node in program.graph.nodes} & table.keys()
    return program.run_decompositions({target: table[target] for target in held}) if held else program


def adaptive_average(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """As `aten.adaptive_avg_pool3d`. Windows of one size are a pool, others a product with each axis's averages."""
    space = len(sizes)
    given = x.shape[-space:]
    if not any(n % m for n, m in zip(given, sizes, strict=True)):
        windows = [n // m for n, m in zip(given, sizes, strict=True)]
        return F.avg_pool3d(x, windows, windows)
    for axis, size in zip(range(-space, 0), sizes, strict=True):
        means = _means(x.shape[axis], size, x)
        x = x @ means.T if axis == -1 else (means @ x.flatten(axis + 1)).unflatten(-1, x.shape[axis + 1 :])
    return x


def _means(given: int, made: int, like: Tensor) -> Tensor:
    """[made, given]: each row averages a window, as torch's adaptive pools place them."""
    begins = torch.arange(made, device=like.device) * given // made
    ends = (torch.arange(1, made + 1, device=like.device) * given + made - 1) // made
    places = torch.arange(given, device=like.device)
    inside = (places >= begins[:, None]) & (places < ends[:, None])
    return inside.to(like.dtype) / (ends - begins)[:, None]


def running_product(x: Tensor, axis: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """As `aten.cumprod`: each pass takes in twice as many of the elements before."""
    if dtype is None and not (x.is_floating_point() or x.is_complex()):
        dtype = torch.int64  # as torch has it, for products grow
    x = x if dtype is None else x.to(dtype)
    length, step = x.shape[axis] if x.dim() else 1, 1
    while step < length:
        first, before, behind = (x.narrow(axis, 0, step), x.narrow(axis, 0, length - step),
                                 x.narrow(axis, step, length - step))  # fmt: skip
        x, step = torch.cat([first, before * behind], axis), 2 * step
    return x


def stably_sorted(x: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """As `aten.sort.stable`. Of equal elements the first comes first in ONNX, too."""
    return torch.ops.aten.sort.default(x, dim, descending)


def distances(a: Tensor, b: Tensor, power: float = 2.0, way: int | None = None) -> Tensor:
    """As `aten.cdist`: of all rows of `a` to all rows of `b`. For many rows torch itself takes a product."""
    if power == 2 and (way == 1 or (way in (0, None) and max(a.shape[-2], b.shape[-2]) > MOST_ROWS)):
        return torch.ops.aten._euclidean_dist.default(a, b)
    gaps = (a.unsqueeze(-2) - b.unsqueeze(-3)).abs()
    if power == 0:
        return (gaps != 0).sum(-1).to(a.dtype)
    if power == 1:
        return gaps.sum(-1)
    if power == 2:
        return gaps.square().sum(-1).sqrt()
    if math.isinf(power):
        return gaps.amax(-1) if gaps.shape[-1] else gaps.sum(-1)  # no number is the largest of none
    return gaps.pow(power).sum(-1).pow(1 / power)


IN_ALL: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.cdist.default: distances,
    torch.ops.aten._cdist_forward.default: distances,
}
"""OpenVINO's reader of torch's graphs takes every distance for the Euclidean one."""

IN_ONNX: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.adaptive_avg_pool3d.default: adaptive_average,
    torch.ops.aten._adaptive_avg_pool3d.default: adaptive_average,
    torch.ops.aten.cumprod.default: running_product,
    torch.ops.aten.sort.stable: stably_sorted,
}
"""torch's exporter has no translation of them."""
