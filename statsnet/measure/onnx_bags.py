"""`embedding_bag` in ONNX, which has no such operator: as a gather and a scatter that adds.

The exporter of torch makes a loop over the bags and grows a list in it. That takes 124 µs a bag where a model has
18,842 of them, so that nearly all of a recommender's step would be that loop. Nobody would deploy such a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

SUM, MEAN, MAX = range(3)

INT64 = 7
"""Of `onnx.TensorProto`."""


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """By the operators of torch that exported programs hold, for `torch.onnx.export(custom_translation_table=)`."""
    aten = torch.ops.aten
    plain = [aten.embedding_bag.default, aten._embedding_bag.default, aten._embedding_bag_forward_only.default]
    return {**dict.fromkeys(plain, embedding_bag), aten.embedding_bag.padding_idx: padded_embedding_bag}


def padded_embedding_bag(weight: Any, *arguments: Any) -> tuple[Any, Any, Any, Any]:
    """As `embedding_bag`. Its last argument, `padding_idx`, counts from the end of the table where it is below 0."""
    *others, padding_idx = arguments
    is_from_end = padding_idx is not None and padding_idx < 0
    padding_idx = padding_idx + weight.shape[0] if is_from_end else padding_idx
    return embedding_bag(weight, *others, padding_idx)  # type: ignore[call-arg]  # eight before it


def embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Each bag's sum, mean or maximum of its rows, [bags, width], and what nothing reads in inference. A bag without
    rows is 0. Rows of `padding_idx` do not count; where it is None or below 0, all do."""
    from onnxscript.onnx_opset import opset18

    op: Any = opset18  # its types know no values of traced graphs

    flat = op.Reshape(indices, op.Constant(value_ints=[-1]))
    none, one = op.Constant(value_ints=[0]), op.Constant(value_ints=[1])
    starts = op.Cast(offsets, to=INT64)
    if include_last_offset:
        starts = op.Slice(starts, none, op.Constant(value_ints=[-1]))
    rows, bag = op.Gather(weight, flat), _bag_of_each(op, flat, starts)
    counted = _filled(op, 1.0, op.Shape(flat), weight)
    no_padding = padding_idx is None or padding_idx < 0
    if not no_padding:
        is_padding = op.Equal(flat, op.CastLike(op.Constant(value_int=padding_idx), flat))
        counted = op.Where(is_padding, _filled(op, 0.0, op.Shape(flat), weight), counted)
    sizes = op.ScatterElements(_filled(op, 0.0, op.Shape(starts), weight), bag, counted, axis=0, reduction="add")
    shape = op.Concat(op.Shape(starts), op.Shape(weight, start=1), axis=0)
    counted, counts = op.Unsqueeze(counted, one), op.Cast(sizes, to=INT64)
    if mode == MAX:
        made = _largest(op, shape, op.Unsqueeze(bag, one), rows, counted, op.Unsqueeze(sizes, one))
        return made, bag, counts, op.Cast(made, to=INT64)
    if per_sample_weights is not None:
        rows = op.Mul(rows, op.Unsqueeze(per_sample_weights, one))
    if not no_padding:
        rows = op.Mul(rows, counted)
    made = op.ScatterND(_filled(op, 0.0, shape, weight), op.Unsqueeze(bag, one), rows, reduction="add")
    if mode == MEAN:
        return op.Div(made, op.Unsqueeze(op.Max(sizes, _filled(op, 1.0, one, weight)), one)), bag, counts, counts
    # What nothing reads has the shapes that torch gives it.
    unread = op.Expand(none, op.Shape(offsets))
    return made, op.Slice(bag, none, none) if no_padding else bag, unread, unread


def _largest(op: Any, shape: Any, bag: Any, rows: Any, counted: Any, sizes: Any) -> Any:
    """The maximum of each bag's rows that count, 0 for a bag without such rows."""
    zero = _filled(op, 0.0, op.Constant(value_ints=[1]), rows)
    rows = op.Where(op.Greater(counted, zero), rows, _filled(op, float("-inf"), op.Shape(rows), rows))
    made = op.ScatterND(_filled(op, float("-inf"), shape, rows), bag, rows, reduction="max")
    return op.Where(op.Greater(sizes, zero), made, _filled(op, 0.0, shape, rows))


def _filled(op: Any, value: float, shape: Any, like: Any) -> Any:
    return op.Expand(op.CastLike(op.Constant(value_float=value), like), shape)


def _bag_of_each(op: Any, flat: Any, starts: Any) -> Any:
    """The bag that each index is in: how many bags have begun, less one. A bag at the end may begin after the last."""
    none, one = op.Constant(value_ints=[0]), op.Constant(value_ints=[1])
    begun = op.Expand(none, op.Add(op.Shape(flat), one))
    begun = op.ScatterElements(begun, starts, op.Expand(one, op.Shape(starts)), axis=0, reduction="add")
    return op.Sub(op.CumSum(op.Slice(begun, none, op.Shape(flat)), op.Constant(value_int=0)), one)
