"""Operators of ONNX → ATen's, with arguments in ATen's order, so that its cost formulas fit.

What an ONNX operator does is in its attributes and shapes. Operators that only change a tensor's shape are views, and
those that compute shapes are nothing. An operator that is not in the table is opaque: counted, without cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from statsnet.recordings.onnx_call import OnnxCall, Translated
from statsnet.recordings.onnx_indexing import INDEXING
from statsnet.recordings.onnx_maps import convolution, global_pool, pool, rearranged, resize
from statsnet.recordings.onnx_products import attention, einsum, gemm, matmul, recurrent
from statsnet.recordings.onnx_quantized import (
    few_bits,
    integer_convolution,
    integer_gemm,
    integer_product,
    is_of_integers,
    with_fraction,
)
from statsnet.recordings.onnx_reductions import REDUCTIONS
from statsnet.signatures.quantized import QUANTIZED
from statsnet.signatures.vocabulary import OPAQUE_OP

_NOTHING = frozenset({"Constant", "Shape", "Size", "ConstantOfShape", "If", "Loop", "Scan", "SequenceEmpty"})
_VIEWS = {"Reshape": "view", "Flatten": "view", "Squeeze": "view", "Unsqueeze": "view", "Identity": "alias",
          "Transpose": "permute", "Split": "split_with_sizes", "Expand": "expand",
          "Dropout": "alias"}  # fmt: skip
_UNARY = {
    "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Neg": "neg",
    "Abs": "abs", "Erf": "erf", "Floor": "floor", "Ceil": "ceil", "Round": "round", "Reciprocal": "reciprocal",
    "Sin": "sin", "Cos": "cos", "Tan": "tan", "Sign": "sign", "Not": "logical_not", "LeakyRelu": "leaky_relu",
    "HardSigmoid": "hardsigmoid", "HardSwish": "hardswish", "Elu": "elu", "Selu": "elu", "Gelu": "gelu",
    "Softplus": "softplus", "IsNaN": "isnan", "IsInf": "isinf", "Mish": "mish", "Celu": "celu",
    "Sinh": "sinh", "Cosh": "cosh", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Asinh": "asinh", "Acosh": "acosh",
    "Atanh": "atanh", "Swish": "silu", "BitwiseNot": "bitwise_not", "Softsign": "abs", "Shrink": "hardshrink",
}  # fmt: skip
_BINARY = {
    "Add": "add.Tensor", "Sub": "sub.Tensor", "Mul": "mul.Tensor", "Div": "div.Tensor", "Pow": "pow.Tensor_Tensor",
    "Equal": "eq.Tensor", "Greater": "gt.Tensor", "GreaterOrEqual": "ge.Tensor", "Less": "lt.Tensor",
    "LessOrEqual": "le.Tensor", "And": "logical_and.default", "Or": "logical_or.default", "Xor": "logical_xor.default",
    "Mod": "remainder.Tensor", "PRelu": "_prelu_kernel.default", "BitwiseAnd": "bitwise_and.Tensor",
    "BitwiseOr": "bitwise_or.Tensor", "BitwiseXor": "bitwise_xor.Tensor",
}  # fmt: skip
_OF_SEVERAL = {"Max": "maximum.default", "Min": "minimum.default", "Sum": "add.Tensor", "Mean": "add.Tensor"}
"""Any number of operands: ATen takes two at a time."""

_COPIES = {"Cast": "_to_copy", "NonZero": "nonzero"}


_WITH_FRACTIONS = frozenset({"Sigmoid", "LeakyRelu", "Softmax", "AveragePool", "GlobalAveragePool"})
"""What ONNX Runtime computes on whole numbers of a byte, and torch on quantized ones alone."""


def translate(call: OnnxCall) -> list[Translated] | None:
    """The ATen calls that stand for a node; an empty list if it does nothing on a device; None if it is not known."""
    op, first = call.op, call.input(0)
    if is_of_integers(first) and op in _WITH_FRACTIONS:
        call = replace(call, inputs=[with_fraction(first), *call.inputs[1:]])
    if op in _NOTHING:
        return []
    if op in _VIEWS:
        return [(f"aten.{_VIEWS[op]}.default", [call.input(0)])]
    if op in _UNARY:
        return [(f"aten.{_UNARY[op]}.default", [call.input(0)])]
    if op in _BINARY:
        return [(f"aten.{_BINARY[op]}", [call.input(0), call.input(1), *([1] if op in ("Add", "Sub") else [])])]
    if op in _OF_SEVERAL:
        return _two_at_a_time(call)
    if op in _COPIES:
        return [(f"aten.{_COPIES[op]}.default", list(call.inputs))]
    special = _SPECIAL.get(op)
    return special(call) if special else None


def opaque(call: OnnxCall) -> Translated:
    """An operator that is counted, but whose kind is not known."""
    return OPAQUE_OP, list(call.inputs)


def _clip(call: OnnxCall) -> list[Translated]:
    """The bounds may stand elsewhere in the file. For how long it takes, any will do."""
    has_low, has_high = (
        call.input(place) is not None or name in call.attributes for place, name in ((1, "min"), (2, "max"))
    )
    low = None if has_high and not has_low else 0.0  # ATen wants one of them
    return [("aten.clamp.default", [call.input(0), low, 6.0 if has_high else None])]


def _pad(call: OnnxCall) -> list[Translated]:
    """ATen's list begins with the last axis; what is added to an axis is added at its end."""
    added = [[0, most - n] for n, most in _before_and_after(call)]
    return [("aten.constant_pad_nd.default", [call.input(0), [n for pair in reversed(added) for n in pair]])]


def _tile(call: OnnxCall) -> list[Translated]:
    return [("aten.repeat.default", [call.input(0), [most // max(n, 1) for n, most in _before_and_after(call)]])]


def _before_and_after(call: OnnxCall) -> list[tuple[int, int]]:
    """The sizes of each axis in the first input and in the result; none if they are not known."""
    shapes = call.shapes()
    return list(zip(*shapes, strict=True)) if shapes and len(shapes[0]) == len(shapes[1]) else []


def _cumulated(call: OnnxCall) -> list[Translated]:
    """Along an axis that a constant names: the last one stands for it."""
    return [("aten.cumsum.default", [call.input(0), max(call.rank() - 1, 0)])]


def _triangle(call: OnnxCall) -> list[Translated]:
    return [(f"aten.{'triu' if call.attributes.get('upper', 1) else 'tril'}.default", [call.input(0)])]


def _sampled(call: OnnxCall) -> list[Translated]:
    return [("aten.grid_sampler.default", [call.input(0), call.input(1), 0, 0, False])]


def _threshold(call: OnnxCall) -> list[Translated]:
    return [("aten.threshold.default", [call.input(0), float(call.attributes.get("alpha", 1.0)), 0.0])]


def _cast(call: OnnxCall) -> list[Translated]:
    return [("aten._to_copy.default", [call.input(0)])]


def _rotated(call: OnnxCall) -> list[Translated]:
    """The tensor's size times cosines and, its halves exchanged, times sines; and the sum of both."""
    first = call.input(0)
    return [("aten.mul.Tensor", [first, first])] * 2 + [("aten.add.Tensor", [first, first, 1])]


def _two_at_a_time(call: OnnxCall) -> list[Translated]:
    """Each partial result is as large as the whole one."""
    op, so_far = f"aten.{_OF_SEVERAL[call.op]}", call.input(0)
    if len(call.inputs) < 2:
        return [("aten.alias.default", [so_far])]
    pairs: list[Translated] = []
    for operand in call.inputs[1:]:
        pairs.append((op, [so_far, operand]))
        so_far = call.outputs[0]
    return pairs


def _gemm(call: OnnxCall) -> list[Translated]:
    return integer_gemm(call) if is_of_integers(call.input(0)) else gemm(call)


def _slice(call: OnnxCall) -> list[Translated]:
    return [("aten.slice.Tensor", [call.input(0)])]


def _where(call: OnnxCall) -> list[Translated]:
    return [("aten.where.self", list(call.inputs))]


def _batch_norm(call: OnnxCall) -> list[Translated]:
    training = bool(call.attributes.get("training_mode", 0))
    return [("aten.native_batch_norm.default", [*call.inputs[:5], training, 0.1, 1e-5])]


def _layer_norm(call: OnnxCall) -> list[Translated]:
    axis = int(call.attributes.get("axis", -1))
    first = call.input(0)
    normalized = first["shape"][axis:] if first else None
    return [("aten.native_layer_norm.default", [first, normalized, call.input(1), call.input(2), 1e-5])]


def _group_norm(call: OnnxCall) -> list[Translated]:
    """Of an InstanceNormalization, each channel is a group."""
    first = call.input(0)
    channels = first["shape"][1] if first and call.rank() > 1 else 1
    groups = int(call.attributes.get("num_groups", channels))
    return [("aten.group_norm.default", [first, groups, call.input(1), call.input(2), 1e-5])]


def _rms_norm(call: OnnxCall) -> list[Translated]:
    first = call.input(0)
    normalized = first["shape"][int(call.attributes.get("axis", -1)) :] if first else None
    return [("aten.rms_norm.default", [first, normalized, call.input(1)])]


def _top(call: OnnxCall) -> list[Translated]:
    result = call.outputs[0] if call.outputs else None
    axis = int(call.attributes.get("axis", -1))
    most = result["shape"][axis] if result and -len(result["shape"]) <= axis < len(result["shape"]) else None
    return [("aten.topk.default", [call.input(0), most, axis])]


def _softmax(call: OnnxCall) -> list[Translated]:
    axis = int(call.attributes.get("axis", -1))
    if (first := call.input(0)) and first["dtype"] in QUANTIZED:
        return [("quantized.softmax.default", [call.input(0), axis, 1.0, 0])]
    name = "_softmax" if call.op == "Softmax" else "_log_softmax"
    return [(f"aten.{name}.default", [call.input(0), axis, False])]


def _concat(call: OnnxCall) -> list[Translated]:
    return [("aten.cat.default", [{"tensors": list(call.inputs)}, int(call.attributes.get("axis", 0))])]


_SPECIAL: dict[str, Callable[[OnnxCall], list[Translated] | None]] = {
    "Conv": convolution, "ConvTranspose": convolution, "Gemm": _gemm, "MatMul": matmul,
    "BatchNormalization": _batch_norm, "LayerNormalization": _layer_norm, "MaxPool": pool, "AveragePool": pool,
    "GlobalAveragePool": global_pool, "GlobalMaxPool": global_pool, "Softmax": _softmax, "LogSoftmax": _softmax,
    "Concat": _concat, "Resize": resize, "Upsample": resize, "LSTM": recurrent,
    "GRU": recurrent, "RNN": recurrent, "Slice": _slice, "Where": _where, "InstanceNormalization": _group_norm,
    "GroupNormalization": _group_norm, "RMSNormalization": _rms_norm, "Einsum": einsum, "TopK": _top,
    "Attention": attention, "RotaryEmbedding": _rotated, "CastLike": _cast,
    "QuantizeLinear": _cast, "DequantizeLinear": _cast, "DynamicQuantizeLinear": _cast,
    "QLinearConv": integer_convolution, "QLinearMatMul": integer_product, "ConvInteger": integer_convolution,
    "MatMulInteger": integer_product, "QuantizedLinear": few_bits, "Clip": _clip, "Pad": _pad, "Tile": _tile,
    "CumSum": _cumulated, "Trilu": _triangle, "GridSample": _sampled,
    "DepthToSpace": rearranged, "SpaceToDepth": rearranged, "ThresholdedRelu": _threshold, **REDUCTIONS, **INDEXING,
}  # fmt: skip
