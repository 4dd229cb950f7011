"""ONNX nodes for operators that are no matrix products, by the operators' base names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from statsnet.exports.onnx_piece import CannotHoldError, Piece, Role
from statsnet.signatures.categories import base_name
from statsnet.signatures.operators import TensorSpec, is_tensor, tensors_of


def end_padding(size: int, out: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """The most at the end of an axis, up to what is at its begin, that gives this output."""
    needed = (out - 1) * stride + (kernel - 1) * dilation + 1 - size - padding
    return max(0, min(padding, needed + stride - 1)) if needed <= padding else needed


def _tensor(piece: Piece, index: int) -> TensorSpec:
    arg = piece.layer.args[index]
    if not is_tensor(arg):
        raise ValueError("no tensor")
    return TensorSpec.from_dict(arg)


def _out(piece: Piece) -> TensorSpec:
    return TensorSpec.from_dict(piece.layer.outputs[0])


def _of(piece: Piece, role: Role, spec: TensorSpec) -> str:
    return piece.value(role, spec.shape, spec.dtype)


def _unary(op: str, **attributes: Any) -> Callable[[Piece], None]:
    def rule(piece: Piece) -> None:
        x = _tensor(piece, 0)
        piece.node(op, (_of(piece, "input", x),), (_of(piece, "output", x),), **attributes)

    return rule


def _gelu(piece: Piece) -> None:
    tanh = piece.layer.args[1:2] == ("tanh",)
    _unary("Gelu", approximate="tanh" if tanh else "none")(piece)


def _silu(piece: Piece) -> None:
    x = _tensor(piece, 0)
    given, gate = _of(piece, "input", x), _of(piece, "hidden", x)
    piece.node("Sigmoid", (given,), (gate,))
    piece.node("Mul", (given, gate), (_of(piece, "output", x),))


def _binary(op: str) -> Callable[[Piece], None]:
    def rule(piece: Piece) -> None:
        """For two tensors, or a tensor and a number."""
        left, right, out = piece.layer.args[0], piece.layer.args[1], _out(piece)
        dtype = out.dtype if not op.startswith(("Equal", "Greater", "Less")) else tensors_of([left, right])[0].dtype
        names = []
        for side in (left, right):
            if is_tensor(side):
                if side["dtype"] != dtype and side["shape"]:  # a number that became a tensor is as good as a number
                    raise CannotHoldError("its operands have elements of different types")
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
        ends = [end_padding(*sizes) for sizes in zip(x.shape[2:], out.shape[2:], kernel, stride, padding, dilation,
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
    rows = _of(piece, "input", indices)
    piece.node("Gather", (_of(piece, "weight", table), rows), (_of(piece, "output", _out(piece)),), axis=0)


def _where(piece: Piece) -> None:
    specs = [_tensor(piece, i) for i in range(3)]
    piece.node("Where", [_of(piece, "input", s) for s in specs], (_of(piece, "output", _out(piece)),))


RULES: dict[str, Callable[[Piece], None]] = {
    "relu": _unary("Relu"), "sigmoid": _unary("Sigmoid"), "tanh": _unary("Tanh"), "gelu": _gelu,
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
