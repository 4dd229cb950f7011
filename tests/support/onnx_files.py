"""Small ONNX models as files."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx")
helper = onnx.helper
FLOAT = onnx.TensorProto.FLOAT


def weight(name: str, *shape: int) -> onnx.TensorProto:
    return helper.make_tensor(name, FLOAT, shape, [0.0] * math.prod(shape))


def save(
    path: Path, nodes: list, inputs: list, weights: list, outputs: tuple[str, ...] = ("y",), functions: tuple = ()
) -> Path:
    """A model of ONNX 17 whose graph has a name of its own; inputs are value infos."""
    results = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "secret_ranker", inputs, results, weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, functions=functions), path)
    return path
