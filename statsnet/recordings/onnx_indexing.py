"""ONNX's operators that look up, scatter and fill → ATen's."""

from __future__ import annotations

import math
from collections.abc import Callable

from statsnet.recordings.onnx_call import OnnxCall, Translated


def gather(call: OnnxCall) -> list[Translated]:
    """Rows of a table, else slices along an axis. There ATen takes indices in one row."""
    table, indices, axis = call.input(0), call.input(1), int(call.attributes.get("axis", 0))
    if table is not None and len(table["shape"]) == 2 and axis == 0 and table["dtype"].startswith(("float", "bfloat")):
        return [("aten.embedding.default", [table, indices])]
    if indices is not None and len(indices["shape"]) > 1:
        indices = indices | {"shape": [math.prod(indices["shape"])]}
    return [("aten.index_select.default", [table, axis, indices])]


def gather_elements(call: OnnxCall) -> list[Translated]:
    return [("aten.gather.default", [call.input(0), int(call.attributes.get("axis", 0)), call.input(1)])]


def scatter(call: OnnxCall) -> list[Translated]:
    """The last axis of the indices names an element or a slice. ATen takes a tensor for each axis, of as many bytes."""
    data, indices = call.input(0), call.input(1)
    if data is None or indices is None or not 1 <= indices["shape"][-1] <= len(data["shape"]):
        return [("aten.index_put.default", [data, {"tensors": [indices]}, call.input(2)])]
    *places, axes = indices["shape"]
    each = {"shape": places, "dtype": indices["dtype"]}
    return [("aten.index_put.default", [data, {"tensors": [each] * axes}, call.input(2)])]


def scatter_elements(call: OnnxCall) -> list[Translated]:
    args = [call.input(0), int(call.attributes.get("axis", 0)), call.input(1), call.input(2)]
    return [("aten.scatter_add.default", args)]


def one_hot(call: OnnxCall) -> list[Translated]:
    """How many classes there are is a value of the model; the result's axis tells it."""
    indices, result = call.input(0), call.outputs[0]
    if indices is None or result is None:
        return [("aten.one_hot.default", [indices])]
    classes = result["shape"][int(call.attributes.get("axis", -1))]
    return [("aten.one_hot.default", [indices | {"dtype": "int64"}, classes])]


def filled(call: OnnxCall) -> list[Translated] | None:
    """A row of numbers, or a matrix with ones on its diagonal, of the result's sizes; unknown without these."""
    result, name = call.outputs[0], "arange.default" if call.op == "Range" else "eye.m"
    return None if result is None else [(f"aten.{name}", [*result["shape"], None])]


INDEXING: dict[str, Callable[[OnnxCall], list[Translated] | None]] = {
    "Gather": gather, "GatherElements": gather_elements, "ScatterND": scatter, "ScatterElements": scatter_elements,
    "OneHot": one_hot, "Range": filled, "EyeLike": filled,
}  # fmt: skip
