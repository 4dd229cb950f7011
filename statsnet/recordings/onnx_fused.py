"""ONNX Runtime's own operators (`com.microsoft`) as nodes of plain ONNX that compute the same.

Its optimizer writes them: convolutions with their activation, attention, norms of sums. Their parts are counted, so an
optimized model has the counts of the model that it was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from statsnet.recordings.onnx_attention import attention, multi_head
from statsnet.recordings.onnx_call import Tensor
from statsnet.recordings.onnx_parts import Fused, FusedNode, Part

DOMAINS = frozenset({"com.microsoft", "com.microsoft.nchwc"})


def parts_of(node: FusedNode) -> Fused | None:
    """What the node computes; None if that is not known."""
    make = _FUSED.get(node.call.op)
    return make(node) if make and node.results and node.results[0] else None


_ACTIVATIONS = ("Relu", "LeakyRelu", "Tanh", "Sigmoid", "Clip", "HardSigmoid")
_OF_FUSION = ("activation", "activation_params", "alpha", "beta", "channels_last", "opset")
"""Attributes of ONNX Runtime's own."""


def _activated(node: FusedNode, op: str, inputs: Sequence[str], own: Sequence[str] = ()) -> Fused:
    """An operator of ONNX, what is added to its result, and the activation. Its attributes are the node's."""
    kept = {k: v for k, v in node.call.attributes.items() if k not in _OF_FUSION and v not in (None, [])}
    given = node.call.attributes.get("activation", b"")
    activation = given.decode(errors="replace") if isinstance(given, bytes) else ""
    ops = [(op, tuple(inputs)), *(("Add", (name,)) for name in own if name)]
    ops += [(activation, ())] if activation in _ACTIVATIONS else []
    parts: list[Part] = []
    for i, (each, names) in enumerate(ops):
        before = () if i == 0 else (parts[-1].outputs[0],)
        after = node.results[0] if i == len(ops) - 1 else node.between(str(i))
        parts.append(Part(op=each, inputs=before + names, outputs=(after,), attributes=kept if i == 0 else {}))
    return Fused(parts=tuple(parts))


def _convolution(node: FusedNode) -> Fused:
    return _activated(node, "Conv", node.names[:3], node.names[3:4])


def _gemm(node: FusedNode) -> Fused:
    return _activated(node, "Gemm", node.names[:3])


def _as(op: str, inputs: int) -> Callable[[FusedNode], Fused]:
    """The same operator in ONNX, with its first inputs."""

    def make(node: FusedNode) -> Fused:
        attributes = {k: v for k, v in node.call.attributes.items() if k not in _OF_FUSION and v not in (None, [])}
        return Fused(parts=(Part(op=op, inputs=node.names[:inputs], outputs=node.results[:1], attributes=attributes),))

    return make


def _copy(node: FusedNode) -> Fused:
    """The same elements in another order; padded channels are left out."""
    first, channels = node.call.input(0), node.number("channels")
    shape = list(first["shape"]) if first else []
    known: dict[str, Tensor] = {}
    if first and channels and len(shape) > 1:
        known[node.results[0]] = {**first, "shape": [shape[0], channels, *shape[2:]]}
    elif first and node.number("channels_last") and len(shape) > 2:
        known[node.results[0]] = {**first, "shape": [shape[0], shape[-1], *shape[1:-1]]}
    elif first:
        known[node.results[0]] = first
    return Fused(parts=(Part(op="Cast", inputs=node.names[:1], outputs=node.results[:1]),), known=known)


def _matmul(node: FusedNode) -> Fused | None:
    """A product of operands that are read transposed."""
    parts: list[Part] = []
    names: list[str] = []
    known: dict[str, Tensor] = {}
    for index, flag in enumerate(("transA", "transB")):
        name, tensor = node.name(index), node.call.input(index)
        if node.number(f"transBatch{flag[-1]}") or tensor is None:
            return None
        if node.number(flag) and len(tensor["shape"]) > 1:
            *leading, rows, columns = tensor["shape"]
            name = node.between(flag)
            known[name] = {**tensor, "shape": [*leading, columns, rows]}
            parts.append(Part(op="Transpose", inputs=(node.name(index),), outputs=(name,)))
        names.append(name)
    parts.append(Part(op="MatMul", inputs=tuple(names), outputs=node.results[:1]))
    return Fused(parts=tuple(parts), known=known)


def _gelu(node: FusedNode) -> Fused:
    """With what is added first, if there is a second operand."""
    first, parts = node.name(0), []
    if node.name(1):
        first = node.between("sum")
        parts.append(Part(op="Add", inputs=node.names[:2], outputs=(first,)))
    return Fused(parts=(*parts, Part(op="Gelu", inputs=(first,), outputs=node.results[:1])))


def _norm(node: FusedNode) -> Fused:
    """Of one tensor, as older models write it."""
    op = "RMSNormalization" if "Simplified" in node.call.op else "LayerNormalization"
    attributes = {"axis": node.number("axis", -1)}
    return Fused(parts=(Part(op=op, inputs=node.names[:3], outputs=node.results[:1], attributes=attributes),))


def _norm_of_sum(node: FusedNode) -> Fused:
    """Input and skip, scale and shift, and a bias. The sum may be an output, too."""
    simplified = "Simplified" in node.call.op
    bias = node.name(3 if simplified else 4)
    total, parts = node.result(3), []
    operands = [node.name(0), node.name(1)]
    if bias:
        parts.append(Part(op="Add", inputs=(node.name(0), bias), outputs=(node.between("biased"),)))
        operands[0] = node.between("biased")
    parts.append(Part(op="Add", inputs=tuple(operands), outputs=(total,)))
    own = (node.name(2),) if simplified else tuple(n for n in (node.name(2), node.name(3)) if n)
    op = "RMSNormalization" if simplified else "LayerNormalization"
    parts.append(Part(op=op, inputs=(total, *own), outputs=node.results[:1], attributes={"axis": -1}))
    return Fused(parts=tuple(parts))


def _embeddings(node: FusedNode) -> Fused:
    """Words, positions and segments are looked up and added up, then normalized."""
    ids, segments, words, positions, of_segments, scale, shift = (node.name(i) for i in range(7))
    word, place, total = node.between("word"), node.between("place"), node.result(2)
    parts = [
        Part(op="Gather", inputs=(words, ids), outputs=(word,)),
        Part(op="Gather", inputs=(positions, node.name(8) or ids), outputs=(place,)),
    ]
    last = node.between("both") if segments and of_segments else total
    parts.append(Part(op="Add", inputs=(word, place), outputs=(last,)))
    if last != total:
        kind = node.between("kind")
        parts.append(Part(op="Gather", inputs=(of_segments, segments), outputs=(kind,)))
        parts.append(Part(op="Add", inputs=(last, kind), outputs=(total,)))
    attributes = {"axis": -1}
    parts.append(
        Part(op="LayerNormalization", inputs=(total, scale, shift), outputs=node.results[:1], attributes=attributes)
    )
    return Fused(parts=tuple(parts))


def _quantized_gemm(node: FusedNode) -> Fused:
    """A, its scale and zero, B, its scale and zero, C: an integer product."""
    attributes = {name: node.number(name) for name in ("transA", "transB")}
    inputs = (node.name(0), node.name(3), *((node.name(6),) if node.name(6) else ()))
    return Fused(parts=(Part(op="Gemm", inputs=inputs, outputs=node.results[:1], attributes=attributes),))


def _integer_product(node: FusedNode) -> Fused:
    """Of a float or integer tensor with a matrix of integers; the result is float."""
    first, second = node.call.input(0), node.call.input(1)
    known: dict[str, Tensor] = {}
    if first and second and len(second["shape"]) == 2:
        known[node.results[0]] = {"shape": [*first["shape"][:-1], second["shape"][1]], "dtype": "float32"}
    names, parts = node.names[:2], []
    if first and first["dtype"].startswith("float"):  # it is made one of integers on the way in
        bytes_, scale, zero = (node.between(what) for what in ("bytes", "scale", "zero"))
        known[bytes_] = {"shape": first["shape"], "dtype": "uint8"}
        parts.append(Part(op="DynamicQuantizeLinear", inputs=names[:1], outputs=(bytes_, scale, zero)))
        names = (bytes_, *names[1:])
    product = Part(op="MatMulInteger", inputs=names, outputs=node.results[:1])
    return Fused(parts=(*parts, product), known=known)


def _few_bits(node: FusedNode) -> Fused | None:
    """A product with weights of `bits` bits, several to a byte: they are read once, as many bytes as they are."""
    first, rows, columns = node.call.input(0), node.number("K"), node.number("N")
    if first is None or rows < 1 or columns < 1 or node.call.input(1) is None:
        return None
    result = {"shape": [*first["shape"][:-1], columns], "dtype": first["dtype"]}
    how = {"bits": node.number("bits", 4), "block_size": node.number("block_size"), "N": columns}
    part = Part(op="QuantizedLinear", inputs=node.names[:3], outputs=node.results[:1], attributes=how)
    return Fused(parts=(part,), known={node.results[0]: result})


def _of_two(op: str) -> Callable[[FusedNode], Fused]:
    """A point-wise operator of two quantized tensors: the second stands behind the scale and zero of the first."""

    def make(node: FusedNode) -> Fused:
        return Fused(parts=(Part(op=op, inputs=(node.name(0), node.name(3)), outputs=node.results[:1]),))

    return make


def _concatenated(node: FusedNode) -> Fused:
    """The result's scale and zero, then each tensor with its own."""
    attributes = {"axis": node.number("axis")}
    return Fused(parts=(Part(op="Concat", inputs=node.names[2::3], outputs=node.results[:1], attributes=attributes),))


def _rotated(node: FusedNode) -> Fused:
    """Two products and a sum of the tensor's size."""
    first = node.call.input(0)
    if first is None:
        return Fused()
    one, other = node.between("cosine"), node.between("sine")
    parts = [Part(op="Mul", inputs=(node.name(0), node.name(0)), outputs=(name,)) for name in (one, other)]
    return Fused(parts=(*parts, Part(op="Add", inputs=(one, other), outputs=node.results[:1])),
                 known={node.results[0]: first})  # fmt: skip


_FUSED: dict[str, Callable[[FusedNode], Fused | None]] = {
    "FusedConv": _convolution, "Conv": _convolution, "NhwcFusedConv": lambda _: None, "FusedGemm": _gemm,
    "FusedMatMul": _matmul, "TransposeMatMul": _matmul, "Gelu": _gelu, "FastGelu": _gelu, "BiasGelu": _gelu,
    "QuickGelu": _gelu, "LayerNormalization": _norm, "SimplifiedLayerNormalization": _norm,
    "SkipLayerNormalization": _norm_of_sum, "SkipSimplifiedLayerNormalization": _norm_of_sum,
    "EmbedLayerNormalization": _embeddings, "Attention": attention, "MultiHeadAttention": multi_head,
    "GroupQueryAttention": multi_head, "RotaryEmbedding": _rotated, "ReorderInput": _copy, "ReorderOutput": _copy,
    "MaxPool": _as("MaxPool", 1), "AveragePool": _as("AveragePool", 1), "GlobalMaxPool": _as("GlobalMaxPool", 1),
    "GlobalAveragePool": _as("GlobalAveragePool", 1), "QLinearGlobalAveragePool": _as("GlobalAveragePool", 1),
    "QLinearAveragePool": _as("AveragePool", 1), "QGemm": _quantized_gemm, "DynamicQuantizeMatMul": _integer_product,
    "MatMulIntegerToFloat": _integer_product, "MatMulNBits": _few_bits, "QLinearAdd": _of_two("Add"),
    "QLinearMul": _of_two("Mul"), "QLinearSigmoid": _as("Sigmoid", 1), "QLinearLeakyRelu": _as("LeakyRelu", 1),
    "QLinearSoftmax": _as("Softmax", 1), "QLinearConcat": _concatenated, "Trilu": _as("Trilu", 1),
    "QuantizeLinear": _as("QuantizeLinear", 3), "DequantizeLinear": _as("DequantizeLinear", 3),
}  # fmt: skip
"""Operator -> its parts. Those of plain ONNX's names behave like them."""
