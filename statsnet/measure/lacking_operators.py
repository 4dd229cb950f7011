"""Operators that other runtimes lack or get wrong, in others that they have. The same numbers, but for rounding.

Most read and multiply about as much as torch's own kernel, so that what is timed is what somebody would deploy. Not so
running products and extremes, which take a pass for each doubling of the axis where torch takes one in all; distances
of few rows or another power than 2, which make all gaps in memory; and pools of uneven windows (`lacking_pools`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from statsnet.measure.lacking_pools import adaptive_average, adaptive_maximum

aten: Any = torch.ops.aten

MOST_ROWS = 25
"""For more, torch finds Euclidean distances by a product."""


def rewritten(program: ExportedProgram, table: Mapping[Any, Callable[..., Any]]) -> ExportedProgram:
    """The same program; the operators of this table that are in it are what the table makes of them."""
    held = {node.target for node in program.graph.nodes} & table.keys()
    return program.run_decompositions({target: table[target] for target in held}) if held else program


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


SMALL = frozenset({torch.bool, torch.uint8, torch.int8, torch.int16})
"""Dtypes that onnxruntime does not compare."""


def running_extreme(x: Tensor, axis: int, *, is_beyond: Callable[[Tensor, Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """As `aten.cummax` and `cummin`: values, and their places. Of equal ones the last counts.

    As for a running product, each pass takes in twice as many of the elements before. What is no number is beyond all.
    """
    if not x.dim():
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    length, step = x.shape[axis], 1
    values = x.to(torch.int32) if x.dtype in SMALL else x
    along = [length if i == axis % x.dim() else 1 for i in range(x.dim())]
    places = torch.arange(length, device=x.device).view(along).expand(x.shape)
    while step < length:
        before, behind = values.narrow(axis, 0, length - step), values.narrow(axis, step, length - step)
        taken = is_beyond(behind, before)
        if x.is_floating_point():
            taken = (taken & ~before.isnan()) | behind.isnan()
        values, places, step = _chosen(taken, values, axis), _chosen(taken, places, axis), 2 * step
    return values.to(x.dtype), places


def _chosen(behind: Tensor, x: Tensor, axis: int) -> Tensor:
    """The first elements of an axis as they are. Then each where `behind` is true, and else the one as far before it as
    there are more elements than choices."""
    rest = behind.shape[axis]
    step = x.shape[axis] - rest
    chosen = torch.where(behind, x.narrow(axis, step, rest), x.narrow(axis, 0, rest))
    return torch.cat([x.narrow(axis, 0, step), chosen], axis)


def places_in_order(
    ordered: Tensor,
    x: Tensor | float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """As `aten.searchsorted`: how many elements along the last axis of `ordered` lie before each of `x`.

    All are looked for at once, and each step halves what is left. Comparing each with all, as torch's exporter does for
    `bucketize`, would take fewer operators and a table of all pairs.
    """
    if not isinstance(x, Tensor):
        both = torch.result_type(ordered, x)
        ordered, x = ordered.to(both), torch.tensor(x, device=ordered.device, dtype=torch.float64).to(both)
    if sorter is not None:
        ordered = ordered.gather(-1, sorter)
    length, is_right = ordered.shape[-1], side == "right" or (side is None and right)
    found = torch.zeros_like(x, dtype=torch.int64)
    for step in (2**power for power in reversed(range(length.bit_length()))):
        further = found + step
        place = further.clamp(max=length) - 1
        element = ordered[place] if ordered.dim() == 1 else ordered.gather(-1, place)
        is_behind = element > x if is_right else element >= x
        found = torch.where((further <= length) & ~is_behind, further, found)
    return found.to(torch.int32) if out_int32 else found


def buckets(x: Tensor | float, ordered: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """As `aten.bucketize`."""
    return places_in_order(ordered, x, out_int32=out_int32, right=right)


def stably_sorted(x: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """As `aten.sort.stable`. Of equal elements the first comes first in ONNX, too."""
    return aten.sort.default(x, dim, descending)


def distances(a: Tensor, b: Tensor, power: float = 2.0, way: int | None = None) -> Tensor:
    """As `aten.cdist`: of all rows of `a` to all rows of `b`. For many rows torch itself takes a product."""
    if power == 2 and (way == 1 or (way in (0, None) and max(a.shape[-2], b.shape[-2]) > MOST_ROWS)):
        return aten._euclidean_dist.default(a, b)
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
    aten.cdist.default: distances,
    aten._cdist_forward.default: distances,
}
"""OpenVINO's reader of torch's graphs takes every distance for the Euclidean one."""

IN_ONNX: dict[Any, Callable[..., Any]] = {
    aten.adaptive_avg_pool3d.default: adaptive_average,
    aten._adaptive_avg_pool3d.default: adaptive_average,
    aten.adaptive_max_pool1d.default: adaptive_maximum,
    aten.adaptive_max_pool2d.default: adaptive_maximum,
    aten.adaptive_max_pool3d.default: adaptive_maximum,
    aten.cumprod.default: running_product,
    aten.cummax.default: partial(running_extreme, is_beyond=torch.ge),
    aten.cummin.default: partial(running_extreme, is_beyond=torch.le),
    aten.searchsorted.Tensor: places_in_order,
    aten.searchsorted.Scalar: places_in_order,
    aten.bucketize.Tensor: buckets,
    aten.bucketize.Scalar: buckets,
    aten.sort.stable: stably_sorted,
}
"""torch's exporter has no translation of them, or one that takes a table of all pairs."""
