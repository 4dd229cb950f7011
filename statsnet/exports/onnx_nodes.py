"""Layers as ONNX nodes: each layer stands alone, with inputs, weights and outputs of its own.

A convolution of up to three axes is a Conv or ConvTranspose, every other matrix product a MatMul or Gemm of its own
size. So both halves of attention, a recurrent layer's products and the gradients of a backward pass are there, without
what lies between them. All others are the nodes of their kind (onnx_rules.py), with a hidden tensor in between where
there are several.
"""

from __future__ import annotations

import math

from statsnet.exports.manifest import Layer
from statsnet.exports.mean_work import mean_work
from statsnet.exports.onnx_piece import MALFORMED, CannotHoldError, Piece
from statsnet.exports.onnx_rules import RULES
from statsnet.exports.onnx_windows import end_padding
from statsnet.signatures.categories import base_name
from statsnet.signatures.operators import is_tensor
from statsnet.signatures.products import Product, Window


def piece_of(layer: Layer, *, planar: bool = False) -> Piece:
    """The nodes of a layer. Raises CannotHoldError with the reason. `planar`: transposed convolutions, and those of
    more than two axes of space, are matrix products, and those of a batch stand alone, for ZigZag takes one weight for
    all of them. Where Conv does not take the dtype, all convolutions are products."""
    if layer.products:
        piece = Piece(layer, layer.repeats)
        for product in layer.products:
            _add_product(piece, product, planar)
        return piece
    if layer.macs is None:
        raise CannotHoldError("its products are not known")
    if layer.phase != "forward":
        raise CannotHoldError(f"ONNX has no operators of the {layer.phase} pass, but for its products")
    rule = RULES.get(base_name(layer.operator).rstrip("_"))
    if rule is None:
        raise CannotHoldError("there is no ONNX operator for it here")
    piece = Piece(layer, layer.repeats * mean_work(layer))
    try:
        rule(piece)
    except MALFORMED as error:
        raise CannotHoldError("its arguments are not known") from error
    return piece


def _add_product(piece: Piece, product: Product, planar: bool) -> None:
    window = product.window
    is_planar = window is not None and len(window.kernel) <= 2 and not window.transposed
    has_conv = piece.operand_dtype in ("float16", "float32", "float64")  # what this opset's Conv takes
    if window is not None and (is_planar or (not planar and len(window.kernel) <= 3)) and has_conv:
        (_add_transposed if window.transposed else _add_convolution)(piece, product, window)
        return
    batch = (product.batch,) if product.batch > 1 and not planar else ()
    op, dtype, written = _matmul(piece.operand_dtype, planar)
    left = piece.value("input", (*batch, product.rows, product.depth), dtype)
    right = piece.value("input" if batch else "weight", (*batch, product.depth, product.columns), dtype)
    inputs, bias = [left, right], None if product.batch > 1 else _bias(piece.layer)
    if bias is not None and "float" in piece.operand_dtype:  # runtimes have no Gemm of integers
        op = "Gemm"
        inputs.append(piece.value("input" if len(bias) > 1 else "weight", bias, dtype))
    out = piece.value("output", (*batch, product.rows, product.columns), written)
    together = math.prod(batch)
    piece.node(op, inputs, (out,), macs=product.dense_macs * together, repeats=product.repeats / together)


def _matmul(dtype: str, planar: bool) -> tuple[str, str | None, str | None]:
    """The operator, and the dtypes of operands and result if they are not the layer's. ZigZag takes no other operator
    than MatMul, and that no elements of 8 bits: wider ones stand in their place, as their values play no part."""
    if planar and dtype.startswith("float8"):
        return "MatMul", "float16", "float16"
    if dtype not in ("int8", "uint8"):
        return "MatMul", None, None
    return ("MatMul", "int32", "int32") if planar else ("MatMulInteger", dtype, "int32")


def _bias(layer: Layer) -> tuple[int, ...] | None:
    """The shape of what the only product of a layer is added to."""
    place = {"addmm": 0, "_addmm_activation": 0, "linear": 2, "mkldnn_linear": 2}.get(base_name(layer.operator))
    given = [] if place is None else layer.args[place : place + 1]
    return tuple(given[0]["shape"]) if given and is_tensor(given[0]) else None


def _add_convolution(piece: Piece, product: Product, window: Window) -> None:
    """With one axis, a second of size 1 is added, which all consumers take."""
    axes = max(2, len(window.kernel)) - len(window.kernel)
    one, none = (1,) * axes, (0,) * axes
    x = piece.value("input", (window.images, window.in_channels, *one, *window.in_size))
    weight = piece.value("weight", (window.out_channels, window.in_channels // window.groups, *one, *window.kernel))
    inputs = [x, weight]
    if len(piece.layer.args) > 2 and is_tensor(piece.layer.args[2]) and "backward" not in piece.layer.operator:
        inputs.append(piece.value("weight", (window.out_channels,)))
    out = piece.value("output", (window.images, window.out_channels, *one, *window.out_size))
    pads = [*none, *window.padding]
    ends = [*none, *map(end_padding, window.in_size, window.out_size, window.kernel, window.stride, window.padding,
                        window.dilation)]  # fmt: skip
    piece.node(
        "Conv", inputs, (out,), macs=product.dense_macs * window.groups, repeats=product.repeats / window.groups,
        kernel_shape=[*one, *window.kernel], strides=[*one, *window.stride], pads=[*pads, *ends],
        dilations=[*one, *window.dilation], group=window.groups,
    )  # fmt: skip


def _add_transposed(piece: Piece, product: Product, w: Window) -> None:
    x = piece.value("input", (w.images, w.in_channels, *w.in_size))
    inputs = [x, piece.value("weight", (w.in_channels, w.out_channels // w.groups, *w.kernel))]
    if len(piece.layer.args) > 2 and is_tensor(piece.layer.args[2]):
        inputs.append(piece.value("weight", (w.out_channels,)))
    out = piece.value("output", (w.images, w.out_channels, *w.out_size))
    axes = zip(w.in_size, w.out_size, w.kernel, w.stride, w.padding, w.dilation, strict=True)
    more = [o - ((i - 1) * s - 2 * p + d * (k - 1) + 1) for i, o, k, s, p, d in axes]
    piece.node(
        "ConvTranspose", inputs, (out,), macs=product.dense_macs * w.groups, repeats=product.repeats / w.groups,
        kernel_shape=list(w.kernel), strides=list(w.stride), pads=[*w.padding, *w.padding],
        dilations=list(w.dilation), group=w.groups, output_padding=more,
    )  # fmt: skip
