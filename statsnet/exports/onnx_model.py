"""The formats `onnx` and `onnx-shapes`: static shapes, one piece of graph for each layer, one opset.

`onnx` has seeded weights in a file beside the model and runs. Its weights begin at different places of that file, which
is as long as the largest of them and at least POOL_BYTES, so that the layers of a suite need no more room than that.
In `onnx-shapes` weights are inputs of the graph: nothing but shapes, for analytical models such as ZigZag.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from statsnet.environment.memory import memory_at_hand_bytes
from statsnet.errors import UsageError
from statsnet.exports.manifest import Layer, Manifest
from statsnet.exports.onnx_nodes import piece_of
from statsnet.exports.onnx_piece import DTYPES, MALFORMED, CannotHoldError, Node, Piece, Value
from statsnet.exports.onnx_refused import refused
from statsnet.exports.operands import weight_bits
from statsnet.exports.registry import Exporter
from statsnet.signatures.canonical import canonical_csv
from statsnet.signatures.operators import ITEM_SIZE
from statsnet.units import format_bytes

OPSET, IR_VERSION = 20, 9
POOL_BYTES = 2**25
_ALIGNMENT = 4096
_WEIGHTS = "weights-{}.bin"


class Onnx(Exporter):
    """model.onnx, its weights, and nodes.csv, which says how often each node counts."""

    name = "onnx"
    title = "ONNX"

    def reason_against(self, layer: Layer) -> str | None:
        return _reason(layer, planar=False)

    def files(self, manifest: Manifest) -> dict[str, bytes]:
        pieces = [piece_of(layer) for layer in manifest.layers]
        pools = _pools(pieces)
        _require_memory(sum(pool.length for pool in pools.values()))
        model = _model(pieces, offsets={name: place for pool in pools.values() for name, place in pool.offsets.items()})
        files = {"model.onnx": model, "nodes.csv": _nodes_csv(pieces)}
        return files | {_WEIGHTS.format(dtype): pool.content(dtype) for dtype, pool in pools.items()}

    def notes(self, manifest: Manifest) -> list[str]:
        made = [
            f"opset {OPSET}; each layer has inputs and outputs of its own and stands once: nodes.csv has its repeats"
        ]
        if names := [name for name in map(refused, map(piece_of, manifest.layers)) if name]:
            listed = ", no ".join(dict.fromkeys(names))
            made.append(f"onnxruntime refuses the model on a CPU: it has no {listed}; load it with another runtime")
        return made


@dataclass(frozen=True, slots=True)
class OnnxShapes(Exporter):
    """model.onnx without weights, and nodes.csv. With `bit_widths`, products have the attributes weight_size and
    act_size, which ZigZag reads and onnx.checker rejects."""

    bit_widths: bool = False

    name = "onnx-shapes"
    title = "ONNX"

    def reason_against(self, layer: Layer) -> str | None:
        return _reason(layer, planar=True)

    def files(self, manifest: Manifest) -> dict[str, bytes]:
        pieces = [piece_of(layer, planar=True) for layer in manifest.layers]
        return {"model.onnx": _model(pieces, bit_widths=self.bit_widths), "nodes.csv": _nodes_csv(pieces)}

    def notes(self, manifest: Manifest) -> list[str]:
        made = [f"opset {OPSET}; weights are inputs of the graph; nodes.csv has the repeats"]
        if self.bit_widths:
            made.append("with bit widths, onnx.checker and onnxruntime reject the model")
        return made


def _reason(layer: Layer, *, planar: bool) -> str | None:
    try:
        piece = piece_of(layer, planar=planar)
        return _against(piece)
    except CannotHoldError as error:
        return str(error)
    except MALFORMED:  # numbers that no attribute takes
        return "its arguments are not known"


def _against(piece: Piece) -> str | None:
    """What ONNX itself says against a piece: element types that an operator does not take, or another result."""
    _require_onnx()
    from onnx import defs, load_from_string, shape_inference

    types = {value.name: _TYPES[value.dtype] for value in piece.values}
    for node in piece.nodes:
        formal = defs.get_schema(node.op, OPSET).inputs
        for place, name in enumerate(node.inputs):  # the last input of a Concat stands for all that follow
            if name and types[name] not in formal[min(place, len(formal) - 1)].types:
                return f"ONNX's {node.op} takes no elements of this type"
    model = load_from_string(_model([piece]))
    declared = [value.type.SerializeToString() for value in model.graph.output]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except shape_inference.InferenceError:
        return "ONNX infers results of another type or size"
    if [value.type.SerializeToString() for value in inferred.graph.output] != declared:
        return "ONNX infers results of another type or size"
    return None


_TYPES = {dtype: f"tensor({name})" for dtype, name in
          {**{dtype: dtype for dtype in DTYPES}, "float32": "float", "float64": "double"}.items()}  # fmt: skip
"""dtype -> how ONNX's schemas call a tensor of it."""


def _require_onnx() -> None:
    """Raises UsageError where it is not installed."""
    if find_spec("onnx") is None:
        raise UsageError(
            "the package onnx is not installed",
            cause="ONNX models are written with it",
            hint="pip install 'statsnet[onnx]'",
        )


@dataclass(frozen=True, slots=True)
class _Pool:
    """Where the weights of one dtype begin in their file, and its length; both in bytes."""

    offsets: dict[str, int]
    length: int

    def content(self, dtype: str) -> bytes:
        """Uniform numbers in [1/64, 1/32), so that no result overflows or needs a root of less than 0."""
        import numpy as np

        count = POOL_BYTES // 32
        numbers = np.random.RandomState(0).randint(0, 2**16, count, dtype=np.uint16)  # its stream never changes
        if dtype in ("float32", "float64", "float16"):
            block = ((numbers / 2**16 + 1) / 64).astype(dtype).tobytes()
        elif dtype == "bfloat16":
            block = (((numbers / 2**16 + 1) / 64).astype("float32").view(np.uint32) >> 16).astype(np.uint16).tobytes()
        else:
            block = (numbers % 3).astype("uint8" if dtype == "bool" else dtype).tobytes()
        return (block * (self.length // len(block) + 1))[: self.length]


def _pools(pieces: list[Piece]) -> dict[str, _Pool]:
    """A file for each dtype: weights one after the other, from the begin again where the file is full."""
    sizes: dict[str, dict[str, int]] = {}
    for value in (v for piece in pieces for v in piece.values if v.role == "weight"):
        sizes.setdefault(value.dtype, {})[value.name] = math.prod(value.shape) * ITEM_SIZE[value.dtype]
    pools = {}
    for dtype, of_dtype in sorted(sizes.items()):
        length = max(max(of_dtype.values()), min(POOL_BYTES, sum(map(_aligned, of_dtype.values()))))
        offsets, at = {}, 0
        for name, size in of_dtype.items():
            if at + size > length:
                at = 0
            offsets[name] = at
            at += _aligned(size)
        pools[dtype] = _Pool(offsets, length)
    return pools


def _require_memory(weights_bytes: int) -> None:
    """Raises UsageError where the weights do not fit: their sizes may come from a stranger's file."""
    if 2 * weights_bytes > (at_hand := memory_at_hand_bytes()):  # they are put together, and then written
        raise UsageError(
            f"the weights take {format_bytes(weights_bytes)}",
            cause=f"they are made in memory, and {format_bytes(at_hand)} are at hand",
            hint="--format onnx-shapes holds the layers without weights; --layers scaled makes them smaller",
        )


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _model(pieces: list[Piece], *, offsets: dict[str, int] | None = None, bit_widths: bool = False) -> bytes:
    """The serialised model; with offsets, weights are in files beside it, else they are inputs."""
    from onnx import helper

    values = [v for piece in pieces for v in piece.values]
    roles = ("input",) if offsets is not None else ("input", "weight")
    graph = helper.make_graph(
        [_node(node, piece, bit_widths) for piece in pieces for node in piece.nodes],
        "statsnet",
        [_info(v) for v in values if v.role in roles],
        [_info(v) for v in values if v.role == "output"],
        initializer=[_constant(v) for v in values if v.role == "constant"]
        + [_external(v, offsets[v.name]) for v in values if v.role == "weight" and offsets is not None],
        value_info=[_info(v) for v in values if v.role == "hidden"],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    model.producer_name = "statsnet"
    return bytes(model.SerializeToString(deterministic=True))


def _node(node: Node, piece: Piece, bit_widths: bool) -> Any:
    from onnx import helper

    attributes = dict(node.attributes)
    if bit_widths and node.op in ("Conv", "MatMul", "Gemm"):
        attributes |= {"weight_size": weight_bits(piece.layer), "act_size": piece.layer.dtype_bits}
    return helper.make_node(node.op, node.inputs, node.outputs, name=node.name, **attributes)


def _info(value: Value) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(value.name, DTYPES[value.dtype], value.shape)


def _constant(value: Value) -> Any:
    from onnx import helper

    return helper.make_tensor(value.name, DTYPES[value.dtype], value.shape, value.numbers)


def _external(value: Value, offset: int) -> Any:
    from onnx import TensorProto

    length = math.prod(value.shape) * ITEM_SIZE[value.dtype]
    tensor = TensorProto(name=value.name, data_type=DTYPES[value.dtype], dims=value.shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in (("location", _WEIGHTS.format(value.dtype)), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(text))
    return tensor


def _nodes_csv(pieces: list[Piece]) -> bytes:
    head = ("node", "op", "layer", "operator", "repeats", "macs")
    nodes = ((node, piece.layer) for piece in pieces for node in piece.nodes)
    rows = ((n.name, n.op, n.layer, layer.operator, n.repeats, n.macs) for n, layer in nodes)
    return canonical_csv(head, rows).encode()
