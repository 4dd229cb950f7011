"""ONNX's operators of integers → torch's that run them on a CPU: products, convolutions, and point-wise ones."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from statsnet.recordings.onnx_call import OnnxCall, Tensor, Translated
from statsnet.recordings.onnx_products import gemm, matmul

_QUANTIZED = {"uint8": "quint8", "int8": "qint8"}
_GROUPS = (32, 64, 128, 256)
_ROWS = 16
"""torch packs weights of four bits by groups of so many elements, and by as many rows."""


def is_of_integers(tensor: Tensor) -> bool:
    return tensor is not None and tensor["dtype"] in _QUANTIZED


def with_fraction(tensor: Tensor) -> Tensor:
    """The same tensor as torch's operators of quantized numbers take it."""
    return tensor and tensor | {"dtype": _QUANTIZED.get(tensor["dtype"], tensor["dtype"])}


def integer_product(call: OnnxCall) -> list[Translated]:
    """Of quantized tensors. Their scales and zeros stand behind each, or at the end. torch multiplies signed bytes, and
    unsigned ones take as long."""
    second = 1 if call.op == "MatMulInteger" else 3
    return _as_integers(matmul(replace(call, inputs=[_signed(call.input(0)), _signed(call.input(second))])))


def integer_gemm(call: OnnxCall) -> list[Translated]:
    """The bias starts the accumulation, and is left out: torch's product of integers takes none."""
    return _as_integers(gemm(replace(call, inputs=[_signed(call.input(0)), _signed(call.input(1))])))


def _signed(tensor: Tensor) -> Tensor:
    return tensor and tensor | {"dtype": "int8"}


def _as_integers(calls: list[Translated]) -> list[Translated]:
    return [("aten._int_mm.default" if op == "aten.mm.default" else op, args) for op, args in calls]


def integer_convolution(call: OnnxCall) -> list[Translated] | None:
    """torch has them with packed parameters, over two axes or three: one axis is the second of two. How long it takes
    does not depend on the result's scale and zero."""
    x, weight = call.input(0), call.input(1 if call.op == "ConvInteger" else 3)
    bias = call.input(8) if call.op == "QLinearConv" else None
    if x is None or weight is None or len(x["shape"]) not in (3, 4, 5):
        return None
    packed = [over_two_axes(weight) | {"dtype": "qint8"}]
    if bias is not None:
        packed.append(bias | {"dtype": "float32"})
    axes = max(2, len(x["shape"]) - 2)
    args = [over_two_axes(x) | {"dtype": "quint8"}, {"tensors": packed}, 1.0, 0]
    return [(f"quantized.conv{axes}d.new", args)]


def over_two_axes(tensor: dict[str, Any]) -> dict[str, Any]:
    """A map [N, C, L] as [N, C, 1, L]; any other one as it is."""
    shape = tensor["shape"]
    return tensor | {"shape": [*shape[:2], 1, *shape[2:]]} if len(shape) == 3 else tensor


def few_bits(call: OnnxCall) -> list[Translated]:
    """x [..., K] and a weight of N rows in groups, `bits` for each element. torch runs those of four bits, in groups
    and numbers of rows that are common, with a zero beside each scale; and those of eight, in one group. Others keep
    the file's tensors."""
    x, bits, group, n = (call.input(0), *(int(call.attributes.get(k) or 0) for k in ("bits", "block_size", "N")))
    columns = x["shape"][-1] if x and x["shape"] else 0
    if x and columns and n:
        left = {"shape": [math.prod(x["shape"][:-1]), columns], "dtype": x["dtype"]}
        if bits == 4 and group in _GROUPS and columns % group == n % _ROWS == 0:
            weight = {"shape": [n, columns // 2], "dtype": "uint8"}
            scales = {"shape": [columns // group, n, 2], "dtype": x["dtype"]}
            return [("aten._weight_int4pack_mm_for_cpu.default", [left, weight, group, scales])]
        if bits == 8 and group >= columns:
            weight, scales = {"shape": [n, columns], "dtype": "int8"}, {"shape": [n], "dtype": x["dtype"]}
            return [("aten._weight_int8pack_mm.default", [left, weight, scales])]
    return [("quantized.linear_dynamic.default", list(call.inputs))]


def result_of(op: str, args: list[Any], outputs: list[Tensor]) -> list[Tensor] | None:
    """The outputs of a call of this file in the shape of its operands; None for any other operator."""
    result = outputs[0] if outputs else None
    if op.startswith("quantized.conv"):
        return [result and over_two_axes(with_fraction(result) or result)]
    if op in ("aten._weight_int4pack_mm_for_cpu.default", "aten._weight_int8pack_mm.default"):
        return [{"shape": [args[0]["shape"][0], args[1]["shape"][0]], "dtype": args[0]["dtype"]}]
    return None
