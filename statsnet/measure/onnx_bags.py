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
    operators = [
        aten.embedding_bag.default,
        aten.embedding_bag.padding_idx,
        aten._embedding_bag.default,
        aten._embedding_bag_forward_only.default,
    ]
    return dict.fromkeys(operators, embedding_bag)


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
    rows is 0. Rows of `padding_idx` do not count; none is left out where that is None or below 0."""
    from onnxscript.onnx_opset import opset18 as op

    def filled(value: float, shape: Any, like: Any) -> Any:
        return op.Expand(op.CastLike(op.Constant(value_float=value), like), shape)

    flat = op.Reshape(indices, op.Constant(value_ints=[-1]))
    starts = op.Cast(offsets, to=INT64)
    if include_last_offset:
        starts = op.Slice(starts, op.Constant(value_ints=[0]), op.Constant(value_ints=[-1]))
    rows, bag = op.Gather(weight, flat), _bag_of_each(op, flat, starts)
    counted = filled(1.0, op.Shape(flat), weight)
    if padding_idx is not None and padding_idx >= 0:
        is_padding = op.Equal(flat, op.CastLike(op.Constant(value_int=padding_idx), flat))
        counted = op.Where(is_padding, filled(0.0, op.Shape(flat), weight), counted)
    sizes = op.ScatterElements(filled(0.0, op.Shape(starts), weight), bag, counted, axis=0, reduction="add")
    column = op.Constant(value_ints=[1])
    made_shape = op.Concat(op.Shape(starts), op.Shape(weight, start=1), axis=0)
    into = op.Unsqueeze(bag, column)
    if mode == MAX:
        lowest = filled(float("-inf"), op.Shape(rows), weight)
        rows = op.Where(op.Greater(op.Unsqueeze(counted, column), filled(0.0, column, weight)), rows, lowest)
        made = op.ScatterND(filled(float("-inf"), made_shape, weight), into, rows, reduction="max")
        some = op.Greater(op.Unsqueeze(sizes, column), filled(0.0, column, weight))
        made = op.Where(some, made, filled(0.0, made_shape, weight))
    else:
        if per_sample_weights is not None:
            rows = op.Mul(rows, op.Unsqueeze(per_sample_weights, column))
        if padding_idx is not None and padding_idx >= 0:
            rows = op.Mul(rows, op.Unsqueeze(counted, column))
        made = op.ScatterND(filled(0.0, made_shape, weight), into, rows, reduction="add")
        if mode == MEAN:
            made = op.Div(made, op.Unsqueeze(op.Max(sizes, filled(1.0, column, weight)), column))
    counts = op.Cast(sizes, to=INT64)
    return made, bag, counts, counts


def _bag_of_each(op: Any, flat: Any, starts: Any) -> Any:
    """The bag that each index is in: how many bags have begun, less one. A bag at the end may begin after the last."""
    none, one = op.Constant(value_ints=[0]), op.Constant(value_ints=[1])
    begun = op.Expand(none, op.Add(op.Shape(flat), one))
    begun = op.ScatterElements(begun, starts, op.Expand(one, op.Shape(starts)), axis=0, reduction="add")
    return op.Sub(op.CumSum(op.Slice(begun, none, op.Shape(flat)), op.Constant(value_int=0)), one)
