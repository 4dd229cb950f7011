"""ONNX nodes for operators that torch's exporter has none for, or a loop (`onnx_bags`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from statsnet.measure import onnx_bags
from statsnet.workloads.grouped_products import GROUPED


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """By the operators of torch that exported programs hold, for `torch.onnx.export(custom_translation_table=)`."""
    resized = [getattr(torch.ops.aten, f"_upsample_nearest_exact{axes}d").default for axes in (1, 2, 3)]
    # transformers has an operator of its own for experts in graphs of other dtypes than bfloat16
    of_transformers = getattr(torch.ops.transformers, "grouped_mm_fallback", None)
    grouped = [GROUPED, None if of_transformers is None else of_transformers.default]
    return {
        **onnx_bags.translations(),
        **dict.fromkeys(resized, nearest_exact),
        **{operator: grouped_product for operator in grouped if operator is not None},
    }


def grouped_product(a: Any, b: Any, ends: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """Experts: the rows of `a` up to each of `ends` times a matrix of `b`. Rows behind the last end become 0.

    One product for each group, as torch and transformers compute it on CPUs. A single node that multiplies each row by
    a matrix of its own would read as many matrices as there are rows.

    Raises NotImplementedError for groups that lie otherwise, which backward passes alone have; and for a bias or
    another dtype of the result.
    """
    if bias is not None or out_dtype is not None:
        raise NotImplementedError("a bias or another dtype of the result")
    op = _nodes()
    if ends is None:
        return op.MatMul(a, b)
    if (len(a.shape), len(b.shape)) != (2, 3):
        raise NotImplementedError("groups along another axis than the rows of the left side")
    first = op.Constant(value_ints=[0])
    start, ends = first, op.Cast(ends, to=onnx_bags.INT64)
    parts = []
    for group in range(b.shape[0]):
        place = op.Constant(value_ints=[group])
        end = op.Slice(ends, place, op.Constant(value_ints=[group + 1]))
        matrix = op.Squeeze(op.Gather(b, place, axis=0), first)
        parts.append(op.MatMul(op.Slice(a, start, end, first), matrix))
        start = end
    rest = op.Sub(op.Shape(a, start=0, end=1), start)
    parts.append(op.Expand(op.CastLike(op.Constant(value_float=0.0), a), op.Concat(rest, op.Shape(b, start=2), axis=0)))
    return op.Concat(*parts, axis=0)


def nearest_exact(x: Any, sizes: Sequence[int], *scales: float | None) -> Any:
    """Each axis by the places that torch takes, in its arithmetic."""
    op, given = _nodes(), [int(n) for n in x.shape[-len(sizes) :]]
    for axis, size in enumerate(sizes):
        scale = scales[axis] if scales else None
        step = np.float32(1 / scale if scale else given[axis] / size)
        places = ((np.arange(size, dtype=np.float32) + np.float32(0.5)) * step).astype(int).clip(max=given[axis] - 1)
        x = op.Gather(x, op.Constant(value_ints=places.tolist()), axis=axis - len(sizes))
    return x


def _nodes() -> Any:
    from onnxscript.onnx_opset import opset18

    return opset18  # its types know no values of traced graphs
