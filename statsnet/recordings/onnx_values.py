"""Sizes that an ONNX model computes: values of small tensors, and the shapes that follow from them.

Exporters compute shapes from shapes, with casts and divisions that onnx's own inference does not follow. Where all
sizes of the inputs are known, these are constants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MOST_ELEMENTS = 64
"""Shapes are short. Longer tensors are data, which some operator has to make."""

_FOLDED = frozenset({
    "Shape", "Size", "Gather", "Concat", "Slice", "Squeeze", "Unsqueeze", "Cast", "Add", "Sub", "Mul", "Div", "Mod",
    "Min", "Max", "Neg", "Abs", "Floor", "Ceil", "Sqrt", "Pow", "Equal", "Less", "Greater", "LessOrEqual", "Not", "And",
    "GreaterOrEqual", "Or", "Where", "Reshape", "ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin", "Identity",
    "Reciprocal", "ConstantOfShape", "Range", "Expand", "Constant", "Split",
})  # fmt: skip
"""What computes sizes."""

Values = Mapping[str, np.ndarray]


def computed(onnx: Any, node: Any, values: Values, shapes: Mapping[str, Any], opset: int) -> list[np.ndarray] | None:
    """The values of a node's outputs, if they are few and follow from known sizes; else None."""
    if node.op_type not in _FOLDED or node.domain not in ("", "ai.onnx") or _reads_elsewhere(node):
        return None
    try:
        if node.op_type in ("Shape", "Size"):
            known = shapes.get(node.input[0])
            return None if known is None else [_of_shape(node, known["shape"])]
        names = [name for name in node.input if name]
        if not values.keys() >= {*names} or not _is_small(node, [values[name] for name in names]):
            return None
        evaluator = onnx.reference.ReferenceEvaluator(_alone(onnx, node), opsets={"": opset})
        found = evaluator.run(None, {name: values[name] for name in names})
    except Exception:  # its errors have no common type; what cannot be computed is unknown
        return None
    arrays = [np.asarray(value) for value in found]
    return arrays if all(array.size <= MOST_ELEMENTS for array in arrays) else None


def _reads_elsewhere(node: Any) -> bool:
    """Whether a tensor of it lies in a file beside the model: onnx would read any that the model names, and what is in
    it would become sizes. So may tensors in a graph within the node; none of _FOLDED has one."""
    if any(a.HasField("g") or a.graphs for a in node.attribute):
        return True
    sparse = [s for a in node.attribute for s in (a.sparse_tensor, *a.sparse_tensors)]
    tensors = [t for a in node.attribute for t in (a.t, *a.tensors)] + [
        t for s in sparse for t in (s.values, s.indices)
    ]
    return any(tensor.data_location for tensor in tensors)


def _of_shape(node: Any, shape: Sequence[int]) -> np.ndarray:
    if node.op_type == "Size":
        return np.array(math.prod(shape), dtype=np.int64)
    limits = {a.name: a.i for a in node.attribute}
    return np.array(shape[limits.get("start", 0) : limits.get("end")], dtype=np.int64)


def _is_small(node: Any, given: Sequence[np.ndarray]) -> bool:
    """Whether the result of a node that makes tensors of any size is small."""
    if node.op_type == "ConstantOfShape":
        return len(given) == 1 and 0 <= math.prod(given[0].tolist()) <= MOST_ELEMENTS
    if node.op_type in ("Max", "Min"):
        return math.prod(np.broadcast_shapes(*(v.shape for v in given))) <= MOST_ELEMENTS
    if node.op_type == "Split":
        return all(a.name != "num_outputs" or a.i == len(node.output) for a in node.attribute)
    if node.op_type == "Expand":
        return bool(math.prod(given[-1].ravel().tolist()) <= MOST_ELEMENTS)
    if node.op_type == "Range":
        start, limit, delta = (float(v.ravel()[0]) if v.size == 1 else math.nan for v in given)
        return len(given) == 3 and abs(limit - start) <= MOST_ELEMENTS * abs(delta)
    return True


def _alone(onnx: Any, node: Any) -> Any:
    """A graph of one node."""
    inputs = [onnx.helper.make_empty_tensor_value_info(name) for name in dict.fromkeys(node.input) if name]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
    return onnx.helper.make_graph([node], "one", inputs, outputs)


def shapes_after(onnx: Any, node: Any, types: Mapping[str, Any], values: Values, opset: int) -> Mapping[str, Any]:
    """The types of a node's outputs as onnx infers them from this node alone; empty if it cannot."""
    names = {name for name in node.input if name}
    if not names <= types.keys():
        return {}
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, "")
        data = {name: onnx.numpy_helper.from_array(values[name]) for name in names & values.keys()}
        given = {name: types[name] for name in names}
        imports = [onnx.helper.make_opsetid("", opset)]
        found: Mapping[str, Any] = onnx.shape_inference.infer_node_outputs(
            schema, node, given, data, opset_imports=imports
        )
        return found
    except Exception:  # its errors have no common type; what cannot be inferred is unknown
        return {}
