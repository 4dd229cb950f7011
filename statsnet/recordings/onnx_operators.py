"""Operators of ONNX → ATen's, with arguments in ATen's order, so that its cost formulas fit.

What an ONNX operator does is in its attributes and shapes. Operators that only change a tensor's shape are views, and
those that compute shapes are nothing. An operator that is not in the table is opaque: counted, without cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from statsnet.recordings.onnx_call import OnnxCall, Translated
from statsnet.recordings.onnx_products import attention, einsum, gemm, matmul, recurrent
from statsnet.signatures.vocabulary import OPAQUE_OP

MOST_SPATIAL_AXES = 3
_NOTHING = frozenset({"Constant", "Shape", "Size", "ConstantOfShape", "If", "Loop", "Scan", "SequenceEmpty"})
_VIEWS = {"Reshape": "view", "Flatten": "view", "Squeeze": "view", "Unsqueeze": "view", "Identity": "alias",
          "Transpose": "permute", "Split": "split_with_sizes", "Expand": "expand",
          "Dropout": "alias"}  # fmt: skip
_UNARY = {
    "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Neg": "neg",
    "Abs": "abs", "Erf": "erf", "Floor": "floor", "Ceil": "ceil", "Round": "round", "Reciprocal": "reciprocal",
    "Sin": "sin", "Cos": "cos", "Tan": "tan", "Sign": "sign", "Not": "logical_not", "LeakyRelu": "leaky_relu",
    "HardSigmoid": "hardsigmoid", "HardSwish": "hardswish", "Elu": "elu", "Selu": "elu", "Gelu": "gelu",
    "Softplus": "softplus", "Clip": "clamp", "IsNaN": "isnan", "IsInf": "isinf", "Mish": "mish", "Celu": "celu",
    "Sinh": "sinh", "Cosh": "cosh", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Asinh": "asinh", "Acosh": "acosh",
    "Atanh": "atanh", "Swish": "silu", "BitwiseNot": "bitwise_not", "Softsign": "abs", "Shrink": "hardshrink",
    "ThresholdedRelu": "threshold",
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

_REDUCTIONS = {"ReduceMean": "mean.dim", "ReduceSum": "sum.dim_IntList", "ReduceMax": "amax.default",
               "ReduceMin": "amin.default", "ReduceProd": "prod.dim_int",
               "ReduceL1": "linalg_vector_norm.default", "ReduceL2": "linalg_vector_norm.default",
               "ReduceLogSumExp": "logsumexp.default", "ReduceSumSquare": "linalg_vector_norm.default",
               "ReduceLogSum": "sum.dim_IntList", "LpNormalization": "linalg_vector_norm.default",
               "ArgMax": "argmax.default", "ArgMin": "argmin.default"}  # fmt: skip
_COPIES = {"Cast": "_to_copy", "Tile": "repeat", "Pad": "constant_pad_nd", "DepthToSpace": "pixel_shuffle",
           "SpaceToDepth": "pixel_unshuffle", "Range": "arange", "Trilu": "tril",
           "OneHot": "one_hot", "ScatterElements": "scatter_add", "GridSample": "grid_sampler",
           "NonZero": "nonzero", "CumSum": "cumsum", "EyeLike": "eye"}  # fmt: skip


def translate(call: OnnxCall) -> list[Translated] | None:
    """The ATen calls that stand for a node; an empty list if it does nothing on a device; None if it is not known."""
    op = call.op
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
    if op in _REDUCTIONS:
        return [(f"aten.{_REDUCTIONS[op]}", [call.input(0), None, None])]
    if op in _COPIES:
        return [(f"aten.{_COPIES[op]}.default", list(call.inputs))]
    special = _SPECIAL.get(op)
    return special(call) if special else None


def opaque(call: OnnxCall) -> Translated:
    """An operator that is counted, but whose kind is not known."""
    return OPAQUE_OP, list(call.inputs)


def _scatter(call: OnnxCall) -> list[Translated]:
    """The last axis of the indices names an element or a slice. ATen takes a tensor for each axis, of as many bytes."""
    return [("aten.index_put.default", [call.input(0), {"tensors": [call.input(1)]}, call.input(2)])]


def _spatial(call: OnnxCall, name: str) -> list[int]:
    given = call.attributes.get(name)
    return [int(n) for n in given] if given else [1] * max(call.rank() - 2, 1)


def _paddings(call: OnnxCall) -> list[int]:
    """ONNX pads at the begin and at the end of each axis; ATen alike on both sides: the begin stands for both."""
    pads = call.attributes.get("pads")
    half = max(call.rank() - 2, 1)
    return [int(n) for n in pads[:half]] if pads else [0] * half


def _convolution(call: OnnxCall) -> list[Translated]:
    transposed = call.op == "ConvTranspose"
    args = [call.input(0), call.input(1), call.input(2), _spatial(call, "strides"), _paddings(call),
            _spatial(call, "dilations"), transposed, [0] * max(call.rank() - 2, 1),
            int(call.attributes.get("group", 1))]  # fmt: skip
    return [("aten.convolution.default", args)]


def _of_integers(call: OnnxCall) -> list[Translated]:
    """A product or convolution of quantized tensors. Their scales and zeros stand behind each, or at the end."""
    second = 1 if call.op.endswith("Integer") else 3
    bias = call.input(8) if call.op == "QLinearConv" else None
    plain = replace(call, inputs=[call.input(0), call.input(second), bias])
    return _convolution(plain) if "Conv" in call.op else matmul(plain)


def _few_bits(call: OnnxCall) -> list[Translated]:
    return [("quantized.linear_dynamic.default", list(call.inputs))]


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


def _gather_elements(call: OnnxCall) -> list[Translated]:
    return [("aten.gather.default", [call.input(0), int(call.attributes.get("axis", 0)), call.input(1)])]


def _pool(call: OnnxCall) -> list[Translated] | None:
    axes = max(call.rank() - 2, 1)
    if axes > MOST_SPATIAL_AXES:
        return None
    name = f"max_pool{axes}d_with_indices" if call.op == "MaxPool" else f"avg_pool{axes}d"
    kernel = _spatial(call, "kernel_shape")
    return [(f"aten.{name}.default", [call.input(0), kernel, _spatial(call, "strides"), _paddings(call)])]


def _global_pool(call: OnnxCall) -> list[Translated]:
    axes = list(range(2, call.rank()))
    name = "amax.default" if call.op == "GlobalMaxPool" else "mean.dim"
    return [(f"aten.{name}", [call.input(0), axes, True])]


def _softmax(call: OnnxCall) -> list[Translated]:
    name = "_softmax" if call.op == "Softmax" else "_log_softmax"
    return [(f"aten.{name}.default", [call.input(0), int(call.attributes.get("axis", -1)), False])]


def _concat(call: OnnxCall) -> list[Translated]:
    return [("aten.cat.default", [{"tensors": list(call.inputs)}, int(call.attributes.get("axis", 0))])]


def _gather(call: OnnxCall) -> list[Translated]:
    table, axis = call.input(0), int(call.attributes.get("axis", 0))
    if table is not None and len(table["shape"]) == 2 and axis == 0 and table["dtype"].startswith(("float", "bfloat")):
        return [("aten.embedding.default", [table, call.input(1)])]
    return [("aten.index_select.default", [table, axis, call.input(1)])]


def _resize(call: OnnxCall) -> list[Translated] | None:
    mode = call.attributes.get("mode", b"nearest")
    axes = max(call.rank() - 2, 1)
    if axes > MOST_SPATIAL_AXES:
        return None
    kind = {b"linear": {1: "linear1d", 2: "bilinear2d", 3: "trilinear3d"}, b"cubic": {2: "bicubic2d"}}.get(mode, {})
    return [(f"aten.upsample_{kind.get(axes, f'nearest{axes}d')}.default", [call.input(0)])]


_SPECIAL: dict[str, Callable[[OnnxCall], list[Translated] | None]] = {
    "Conv": _convolution, "ConvTranspose": _convolution, "Gemm": gemm, "MatMul": matmul,
    "BatchNormalization": _batch_norm, "LayerNormalization": _layer_norm, "MaxPool": _pool, "AveragePool": _pool,
    "GlobalAveragePool": _global_pool, "GlobalMaxPool": _global_pool, "Softmax": _softmax, "LogSoftmax": _softmax,
    "Concat": _concat, "Gather": _gather, "Resize": _resize, "Upsample": _resize, "LSTM": recurrent,
    "GRU": recurrent, "RNN": recurrent, "Slice": _slice, "Where": _where, "InstanceNormalization": _group_norm,
    "GroupNormalization": _group_norm, "RMSNormalization": _rms_norm, "Einsum": einsum, "TopK": _top,
    "GatherElements": _gather_elements, "Attention": attention, "RotaryEmbedding": _rotated, "CastLike": _cast,
    "QuantizeLinear": _cast, "DequantizeLinear": _cast, "DynamicQuantizeLinear": _cast, "QLinearConv": _of_integers,
    "QLinearMatMul": _of_integers, "ConvInteger": _of_integers, "MatMulInteger": _of_integers,
    "QuantizedLinear": _few_bits, "ScatterND": _scatter,
}  # fmt: skip
