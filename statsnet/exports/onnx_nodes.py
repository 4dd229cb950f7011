"""Layers as ONNX nodes: each layer stands alone, with inputs, weights and outputs of its own.

A convolution of up to three axes is a Conv or ConvTranspose, every other matrix product a MatMul or Gemm of its own
size. So both halves of attention, a recurrent layer's products and the gradients of a backward pass are there, without
what lies between them. Pointwise operators, normalisation, softmax, pooling, reductions, concatenation and look-ups are
the nodes of their kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from statsnet.exports.manifest import Layer
from statsnet.exports.products import Product, Window
from statsnet.signatures.categories import base_name
from statsnet.signatures.operators import TensorSpec, is_tensor, tensors_of

Role = Literal["input", "weight", "hidden", "output", "constant"]

DTYPES = {"float32": 1, "uint8": 2, "int8": 3, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
          "float64": 11, "bfloat16": 16}  # fmt: skip
"""dtype -> onnx.TensorProto.DataType."""

LARGEST_WEIGHT_BYTES = 2**31 - 1


class CannotHoldError(Exception):
    """Why ONNX cannot hold a layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A tensor of the graph; a constant has `numbers`. Indices are below `high`."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role
    numbers: tuple[int | float, ...] = ()
    high: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """`repeats` is how often the node counts in the manifest's unit; `macs` are those of one run."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    layer: int
    repeats: float
    macs: int


@dataclass(slots=True)
class Piece:
    """The nodes and values of one layer while they are made."""

    layer: Layer
    nodes: list[Node] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def value(self, role: Role, shape: Sequence[int], dtype: str | None = None, **more: Any) -> str:
        dtype = dtype or self.layer.dtype
        if dtype not in DTYPES:
            raise CannotHoldError(f"ONNX has no elements of {dtype}")
        name = f"{self.layer.name}_{role[0]}{len(self.values)}"
        made = Value(name=name, shape=tuple(shape), dtype=dtype, role=role, **more)
        if role == "weight" and math.prod(made.shape) * 8 > 4 * LARGEST_WEIGHT_BYTES:
            raise CannotHoldError("a weight is larger than 4 GB")
        self.values.append(made)
        return name

    def node(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        repeats: float = 1.0,
        macs: int = 0,
        **attrs: Any,
    ) -> None:
        name = self.layer.name if not self.nodes else f"{self.layer.name}_{len(self.nodes)}"
        self.nodes.append(Node(name=name, op=op, inputs=tuple(inputs), outputs=tuple(outputs), attributes=attrs,
                               layer=self.layer.index, repeats=self.layer.repeats * repeats, macs=macs))  # fmt: skip


def piece_of(layer: Layer, *, planar: bool = False) -> Piece:
    """The nodes of a layer. Raises CannotHoldError with the reason. `planar`: transposed convolutions, and those of
    more than two axes of space, are matrix products."""
    piece = Piece(layer)
    if layer.products:
        for product in layer.products:
            _add_product(piece, product, planar)
        return piece
    if layer.macs is None:
        raise CannotHoldError("its products are not known")
    if layer.phase != "forward":
        raise CannotHoldError(f"ONNX has no operators of the {layer.phase} pass, but for its products")
    rule = _RULES.get(base_name(layer.operator).rstrip("_"))
    if rule is None:
        raise CannotHoldError("there is no ONNX operator for it here")
    try:
        rule(piece)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise CannotHoldError("its arguments are not known") from error
    return piece


def _add_product(piece: Piece, product: Product, planar: bool) -> None:
    window = product.window
    if window is not None and len(window.kernel) <= (2 if planar else 3) and not (planar and window.transposed):
        (_add_transposed if window.transposed else _add_convolution)(piece, product, window)
        return
    batch = (product.batch,) if product.batch > 1 else ()
    left = piece.value("input", (*batch, product.rows, product.depth))
    right = piece.value("input" if batch else "weight", (*batch, product.depth, product.columns))
    inputs = [left, right]
    if with_bias := base_name(piece.layer.operator) == "addmm":
        inputs.append(piece.value("weight", (product.columns,)))
    out = piece.value("output", (*batch, product.rows, product.columns))
    piece.node("Gemm" if with_bias else "MatMul", inputs, (out,), macs=product.dense_macs * product.batch,
               repeats=product.times * product.density)  # fmt: skip


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
    ends = [*none, *map(_end_padding, window.in_size, window.out_size, window.kernel, window.stride, window.padding,
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


def _end_padding(size: int, out: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """The most at the end of an axis, up to what is at its begin, that gives this output."""
    needed = (out - 1) * stride + (kernel - 1) * dilation + 1 - size - padding
    return max(0, min(padding, needed + stride - 1)) if needed <= padding else needed


def _tensor(piece: Piece, index: int) -> TensorSpec:
    arg = piece.layer.args[index]
    if not is_tensor(arg):
        raise ValueError("no tensor")
    return TensorSpec.from_dict(arg)


def _out(piece: Piece, index: int = 0) -> TensorSpec:
    return TensorSpec.from_dict(piece.layer.outputs[index])


def _of(piece: Piece, role: Role, spec: TensorSpec, **more: Any) -> str:
    return piece.value(role, spec.shape, spec.dtype, **more)


def _unary(op: str, **attributes: Any) -> Callable[[Piece], None]:
    def rule(piece: Piece) -> None:
        x = _tensor(piece, 0)
        piece.node(op, (_of(piece, "input", x),), (_of(piece, "output", x),), **attributes)

    return rule


def _silu(piece: Piece) -> None:
    x = _tensor(piece, 0)
    given, gate = _of(piece, "input", x), _of(piece, "hidden", x)
    piece.node("Sigmoid", (given,), (gate,))
    piece.node("Mul", (given, gate), (_of(piece, "output", x),))


def _binary(op: str) -> Callable[[Piece], None]:
    def rule(piece: Piece) -> None:
        """Of two tensors, or of a tensor and a number."""
        left, right, out = piece.layer.args[0], piece.layer.args[1], _out(piece)
        dtype = out.dtype if not op.startswith(("Equal", "Greater", "Less")) else tensors_of([left, right])[0].dtype
        names = []
        for side in (left, right):
            if is_tensor(side):
                names.append(piece.value("input", tuple(side["shape"]), dtype))
            else:
                names.append(piece.value("constant", (), dtype, numbers=(side if side is not None else 1,)))
        piece.node(op, names, (_of(piece, "output", out),))

    return rule


def _clip(piece: Piece) -> None:
    x = _tensor(piece, 0)
    bounds = [piece.value("constant", (), x.dtype, numbers=(n,)) for n in (0.0, 6.0)]
    piece.node("Clip", (_of(piece, "input", x), *bounds), (_of(piece, "output", x),))


def _batch_norm(piece: Piece) -> None:
    x = _tensor(piece, 0)
    if base_name(piece.layer.operator) == "native_batch_norm" and piece.layer.args[5] is not False:
        raise CannotHoldError("ONNX normalises by stored statistics alone")
    parameters = [piece.value("weight", (x.shape[1],), x.dtype) for _ in range(4)]
    piece.node("BatchNormalization", (_of(piece, "input", x), *parameters), (_of(piece, "output", x),), epsilon=1e-5)


def _layer_norm(piece: Piece) -> None:
    x, sizes = _tensor(piece, 0), piece.layer.args[1]
    parameters = [piece.value("weight", sizes, x.dtype) for i in (2, 3) if i == 2 or is_tensor(piece.layer.args[i])]
    piece.node("LayerNormalization", (_of(piece, "input", x), *parameters), (_of(piece, "output", x),),
               axis=-len(sizes), epsilon=1e-5)  # fmt: skip


def _softmax(op: str) -> Callable[[Piece], None]:
    return lambda piece: _unary(op, axis=int(piece.layer.args[1]))(piece)


def _pool(op: str) -> Callable[[Piece], None]:
    def rule(piece: Piece) -> None:
        x, out, args = _tensor(piece, 0), _out(piece), piece.layer.args
        space = len(x.shape) - 2 if len(x.shape) == len(args[1]) + 2 else 0
        if not space:
            raise CannotHoldError("it has no batch")
        kernel, padding = list(args[1]), list(args[3]) if len(args) > 3 and args[3] else [0] * space
        stride = list(args[2]) if len(args) > 2 and args[2] else kernel
        dilation = list(args[4]) if op == "MaxPool" and len(args) > 4 and args[4] else [1] * space
        padding, stride, dilation = (p * space if len(p) == 1 else p for p in (padding, stride, dilation))
        ends = [_end_padding(*sizes) for sizes in zip(x.shape[2:], out.shape[2:], kernel, stride, padding, dilation,
                                                      strict=True)]  # fmt: skip
        more: dict[str, Any] = {"dilations": dilation} if op == "MaxPool" else {}
        piece.node(op, (_of(piece, "input", x),), (_of(piece, "output", out),), kernel_shape=kernel, strides=stride,
                   pads=[*padding, *ends], **more)  # fmt: skip

    return rule


def _reduce(op: str) -> Callable[[Piece], None]:
    def rule(piece: Piece) -> None:
        x, out = _tensor(piece, 0), _out(piece)
        axes = piece.layer.args[1] if len(piece.layer.args) > 1 else None
        axes = list(axes) if isinstance(axes, list) and axes else list(range(len(x.shape)))
        constant = piece.value("constant", (len(axes),), "int64", numbers=tuple(axes))
        kept = int(len(out.shape) == len(x.shape))
        piece.node(op, (_of(piece, "input", x), constant), (_of(piece, "output", out),), keepdims=kept)

    return rule


def _concat(piece: Piece) -> None:
    specs, axis = tensors_of(piece.layer.args[:1]), piece.layer.args[1] if len(piece.layer.args) > 1 else 0
    specs = [s for s in specs if s.numel]
    piece.node("Concat", [_of(piece, "input", s) for s in specs], (_of(piece, "output", _out(piece)),), axis=int(axis))


def _embedding(piece: Piece) -> None:
    table, indices = _tensor(piece, 0), _tensor(piece, 1)
    rows = piece.value("input", indices.shape, indices.dtype, high=table.shape[0])
    piece.node("Gather", (_of(piece, "weight", table), rows), (_of(piece, "output", _out(piece)),), axis=0)


def _where(piece: Piece) -> None:
    specs = [_tensor(piece, i) for i in range(3)]
    piece.node("Where", [_of(piece, "input", s) for s in specs], (_of(piece, "output", _out(piece)),))


_RULES: dict[str, Callable[[Piece], None]] = {
    "relu": _unary("Relu"), "sigmoid": _unary("Sigmoid"), "tanh": _unary("Tanh"), "gelu": _unary("Gelu"),
    "exp": _unary("Exp"), "log": _unary("Log"), "sqrt": _unary("Sqrt"), "neg": _unary("Neg"), "abs": _unary("Abs"),
    "erf": _unary("Erf"), "sin": _unary("Sin"), "cos": _unary("Cos"), "reciprocal": _unary("Reciprocal"),
    "softplus": _unary("Softplus"), "elu": _unary("Elu"), "leaky_relu": _unary("LeakyRelu"),
    "hardswish": _unary("HardSwish"), "hardsigmoid": _unary("HardSigmoid", alpha=1 / 6, beta=0.5),
    "silu": _silu, "hardtanh": _clip,
    "add": _binary("Add"), "sub": _binary("Sub"), "mul": _binary("Mul"), "div": _binary("Div"), "pow": _binary("Pow"),
    "maximum": _binary("Max"), "minimum": _binary("Min"), "eq": _binary("Equal"), "gt": _binary("Greater"),
    "lt": _binary("Less"), "ge": _binary("GreaterOrEqual"), "le": _binary("LessOrEqual"), "where": _where,
    "native_batch_norm": _batch_norm, "_native_batch_norm_legit_no_training": _batch_norm,
    "native_layer_norm": _layer_norm, "_softmax": _softmax("Softmax"), "_log_softmax": _softmax("LogSoftmax"),
    "max_pool2d_with_indices": _pool("MaxPool"), "avg_pool2d": _pool("AveragePool"), "avg_pool3d": _pool("AveragePool"),
    "max_pool3d_with_indices": _pool("MaxPool"),
    "mean": _reduce("ReduceMean"), "sum": _reduce("ReduceSum"), "amax": _reduce("ReduceMax"),
    "amin": _reduce("ReduceMin"), "cat": _concat, "embedding": _embedding,
}  # fmt: skip
