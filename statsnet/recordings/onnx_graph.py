"""The graph of an ONNX model and its subgraphs → calls of ATen's operators, by the shapes of their tensors."""

from __future__ import annotations

import math
from collections import ChainMap, Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from statsnet.errors import printable
from statsnet.profiling.capture import OpCall
from statsnet.recordings.onnx_call import NUMBERS, OnnxCall, Tensor, encoded_tensor, tensor_of_type
from statsnet.recordings.onnx_file import onnx_package
from statsnet.recordings.onnx_fused import DOMAINS as FUSED_DOMAINS
from statsnet.recordings.onnx_fused import parts_of
from statsnet.recordings.onnx_operators import opaque, translate
from statsnet.recordings.onnx_parts import Fused, FusedNode, Part
from statsnet.recordings.onnx_quantized import result_of as quantized_result
from statsnet.recordings.onnx_values import MOST_ELEMENTS, computed, shapes_after
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.operators import MOST_AXES
from statsnet.signatures.vocabulary import OPAQUE_OP

OLD_NORMS = {
    True: ("LayerNormalization", "SimplifiedLayerNormalization"), False: ("SimplifiedLayerNormalization",)
}  # fmt: skip
"""Operators of ONNX Runtime that it counts to ONNX: whether the model is older than ONNX's own -> their names."""
OTHER = "of other domains"
MOST_NAMED = 8
MOST_READ = 100
"""Of a node that is several calls, each reads all before it. With more operands each reads the last: thousands would
take the square of their number."""
MISFITS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a node raises whose sizes or attributes are none of its kind: anybody may have written them down."""


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is known of a graph's tensors by name. A subgraph sees what is around it: to copy that for each of many
    subgraphs would take their square."""

    shapes: ChainMap[str, Tensor] = field(default_factory=ChainMap)
    producers: ChainMap[str, int] = field(default_factory=ChainMap)
    values: ChainMap[str, np.ndarray] = field(default_factory=ChainMap)

    def inner(self) -> _Scope:
        return _Scope(self.shapes.new_child(), self.producers.new_child(), self.values.new_child())


class GraphReader:
    """Collects the calls of a graph and its subgraphs."""

    def __init__(self, note: Callable[[str], object], opset: int) -> None:
        self.calls: list[OpCall] = []
        self.note = note
        self.onnx = onnx_package()
        self.opset = opset
        self.branches = self.bodies = self.unsized = 0
        self.opaque: Counter[str] = Counter()
        self.weights: set[str] = set()

    def read(self, graph: Any) -> None:
        self._graph(graph, _Scope())

    def _graph(self, graph: Any, outer: _Scope) -> _Scope:
        scope = outer.inner()
        for value in (*graph.input, *graph.value_info, *graph.output):
            scope.shapes[value.name] = tensor_of_type(value.type)
        for weight in graph.initializer:
            scope.shapes[weight.name] = encoded_tensor(weight.data_type, weight.dims)
            self.weights.add(weight.name)
            has_size = len(weight.dims) <= MOST_AXES  # of a hundred thousand, the product alone takes seconds
            if has_size and math.prod(weight.dims) <= MOST_ELEMENTS and weight.data_location == 0:
                with suppress(Exception):  # damaged, or of an unknown type: its errors have no common one
                    scope.values[weight.name] = self.onnx.numpy_helper.to_array(weight)
        for node in graph.node:
            self._subgraphs(node, scope)
            self._node(node, scope)
        return scope

    def _subgraphs(self, node: Any, scope: _Scope) -> None:
        graphs = {a.name: a.g for a in node.attribute if a.HasField("g")}
        if not graphs:
            return
        condition = scope.values.get(node.input[0]) if node.op_type == "If" and node.input else None
        taken = None if condition is None else graphs.get("then_branch" if condition.all() else "else_branch")
        chosen = taken or max(graphs.values(), key=_nodes_within)
        within = self._graph(chosen, scope)
        if node.op_type != "If":
            self.bodies += 1
            return
        self.branches += taken is None
        for name, result in zip(node.output, chosen.output, strict=False):
            scope.shapes[name] = scope.shapes.get(name) or within.shapes.get(result.name)
            if result.name in within.producers:
                scope.producers[name] = within.producers[result.name]
            if taken is not None and result.name in within.values:
                scope.values[name] = within.values[result.name]

    def _node(self, node: Any, scope: _Scope) -> None:
        """A node that only computes sizes is nothing, like one that unpacks a weight: both are done beforehand."""
        values = computed(self.onnx, node, scope.values, scope.shapes, self.opset)
        if values is not None:
            for name, value in zip(node.output, values, strict=False):
                scope.values[name] = value
                scope.shapes[name] = encoded_tensor(self.onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            return
        is_fused = node.domain in FUSED_DOMAINS or node.op_type in OLD_NORMS.get(self.opset < 17, ())
        fused, parts = (self._parts(node, scope) if is_fused else None) or (None, [])
        if fused is None:
            self._plain(node, scope, self.opset)
            return
        scope.shapes.update((name, shape) for name, shape in fused.known.items() if shape is not None)
        for part in parts:
            self._plain(part, scope, self.onnx.defs.onnx_opset_version())

    def _parts(self, node: Any, scope: _Scope) -> tuple[Fused, list[Any]] | None:
        """What a fused node computes, and its parts as nodes; None if its sizes or attributes are none of its kind."""
        try:
            fused = parts_of(_fused_node(node, scope))
            return None if fused is None else (fused, [self._made(part) for part in fused.parts])
        except MISFITS:
            return None

    def _made(self, part: Part) -> Any:
        """Without attributes that ONNX's operator does not have: onnx would refuse the node for them."""
        defs = self.onnx.defs
        known = defs.get_schema(part.op).attributes if defs.has(part.op) else part.attributes
        attributes = {name: value for name, value in part.attributes.items() if name in known}
        return self.onnx.helper.make_node(part.op, part.inputs, part.outputs, **attributes)

    def _infer(self, node: Any, scope: _Scope, opset: int) -> None:
        """Give the outputs their shapes. ONNX lacks some operators of integers that ONNX Runtime has: there, shapes are
        those of floats."""
        tensors = {name: shape for name in node.input if (shape := scope.shapes.get(name)) is not None}
        types = {name: self._type(tensor) for name, tensor in tensors.items()}
        found = shapes_after(self.onnx, node, types, scope.values, opset)
        first = tensors.get(node.input[0]) if node.input else None
        if not found and first and first["dtype"] in ("int8", "uint8"):
            types = {name: self._type(tensor | {"dtype": "float32"}) for name, tensor in tensors.items()}
            found = shapes_after(self.onnx, node, types, scope.values, opset)
            for type_ in found.values():
                type_.tensor_type.elem_type = NUMBERS[first["dtype"]]
        for name, type_ in found.items():
            scope.shapes[name] = scope.shapes.get(name) or tensor_of_type(type_)

    def _plain(self, node: Any, scope: _Scope, opset: int) -> None:
        if any(name and scope.shapes.get(name) is None for name in node.output):
            self._infer(node, scope, opset)
        if node.op_type == "DequantizeLinear" and node.input and node.input[0] in self.weights:
            return
        call = _call(node, scope)
        translated = _translated(call)
        if translated is None:
            name: str | bytes = call.op or (node.op_type if node.domain in FUSED_DOMAINS else OTHER)
            # Protobuf gives bytes where it is no UTF-8.
            self.opaque[name if isinstance(name, str) else name.decode(errors="replace")] += 1
            translated = [(*opaque(call), list(call.outputs))]
        unsized = [name for name, shape in zip(node.output, call.outputs, strict=True) if name and shape is None]
        self.unsized += bool(translated and unsized)
        read = {scope.producers[name] for name in node.input if name in scope.producers}
        for op, args, outputs in translated:
            metadata = is_metadata(op) and op != OPAQUE_OP
            self.calls.append(
                OpCall(op=op, phase="forward", args=args, outputs=outputs, producers=tuple(sorted(read)),
                       metadata=metadata, event=op)
            )  # fmt: skip
            read = {*read, len(self.calls) - 1} if len(read) < MOST_READ else {len(self.calls) - 1}
            scope.producers.update((name, len(self.calls) - 1) for name in node.output if name)

    def _type(self, shape: dict[str, Any]) -> Any:
        return self.onnx.helper.make_tensor_type_proto(NUMBERS[shape["dtype"]], shape["shape"])

    def tell(self) -> None:
        if self.branches:
            self.note(f"of {self.branches} If the branch with more operators is counted")
        if self.bodies:
            self.note(f"the bodies of {self.bodies} Loop or Scan are counted once")
        if self.unsized:
            self.note(f"{self.unsized} operators have an output whose shape depends on values: their cost is not known")
        if self.opaque:
            named = ", ".join(printable(name)[:40] for name, _ in self.opaque.most_common(MOST_NAMED))
            self.note(f"{self.opaque.total()} operators have no counterpart in ATen: their cost is not known ({named})")


def _translated(call: OnnxCall) -> list[tuple[str, list[Any], list[Any]]] | None:
    """Operators with their arguments and outputs; None if the node's is not known, or if the node does not fit it."""
    try:
        found = translate(call)
        return None if found is None else [(op, args, _outputs(op, args, list(call.outputs))) for op, args in found]
    except MISFITS:
        return None


def _call(node: Any, scope: _Scope) -> OnnxCall:
    return OnnxCall(
        op=node.op_type if node.domain in ("", "ai.onnx") else "",
        inputs=[scope.shapes.get(name) if name else None for name in node.input],
        outputs=[scope.shapes.get(name) if name else None for name in node.output],
        attributes={a.name: _attribute(a) for a in node.attribute},
    )


def _fused_node(node: Any, scope: _Scope) -> FusedNode:
    call = replace(_call(node, scope), op=node.op_type)
    return FusedNode(names=tuple(node.input), results=tuple(node.output), call=call)


def _outputs(op: str, args: list[Any], outputs: list[Any]) -> list[Any]:
    """A product's output in the shape of its flattened operands; attention's with its heads apart."""
    if op in ("aten.mm.default", "aten.bmm.default", "aten._int_mm.default") and all(args):
        shape = [*args[0]["shape"][:-1], args[1]["shape"][-1]]
        told = outputs[0] if outputs else None  # of integers, the result is wider
        return [{"shape": shape, "dtype": (told or args[0])["dtype"]}]
    if op == "aten.index_select.default" and args[0] and args[2]:
        shape, axis = list(args[0]["shape"]), args[1] % max(1, len(args[0]["shape"]))
        return [{"shape": [*shape[:axis], math.prod(args[2]["shape"]), *shape[axis + 1 :]], "dtype": args[0]["dtype"]}]
    if op == "aten.scaled_dot_product_attention.default":
        return [args[0] | {"shape": [*args[0]["shape"][:-1], args[2]["shape"][-1]]}]
    return quantized_result(op, args, outputs) or outputs


def _nodes_within(graph: Any) -> int:
    inner = (a.g for node in graph.node for a in node.attribute if a.HasField("g"))
    return len(graph.node) + sum(_nodes_within(g) for g in inner)


def _attribute(attribute: Any) -> Any:
    kind = attribute.type  # AttributeProto.AttributeType
    if kind == 1:
        return attribute.f
    if kind == 2:
        return attribute.i
    if kind == 3:
        return attribute.s
    return list(attribute.ints) if kind == 7 else list(attribute.floats) if kind == 6 else None
