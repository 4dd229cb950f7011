"""ONNX nodes for operators that compute each element of their result from the same element of their operands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from statsnet.exports.onnx_piece import DTYPES, CannotHoldError, Piece, Rule
from statsnet.signatures.operators import ITEM_SIZE, is_tensor, tensors_of


def unary(op: str, **attributes: Any) -> Rule:
    return steps((op, attributes))


def steps(*nodes: tuple[str, dict[str, Any]]) -> Rule:
    """One node after the other, for what ONNX has no operator of its own for."""

    def rule(piece: Piece) -> None:
        x = piece.tensor(0)
        given = piece.of("input", x)
        for number, (op, attributes) in enumerate(nodes, 1):
            made = piece.of("output", piece.result()) if number == len(nodes) else piece.of("hidden", x)
            piece.node(op, (given,), (made,), **attributes)
            given = made

    return rule


def _with_alpha(op: str, default: float) -> Rule:
    def rule(piece: Piece) -> None:
        unary(op, alpha=float(piece.argument(1, default)))(piece)

    return rule


def _elu(piece: Piece) -> None:
    """alpha, and two scales: the first of them makes it SELU."""
    alpha, scale, input_scale = (piece.argument(place, 1.0) for place in (1, 2, 3))
    if input_scale != 1:
        raise CannotHoldError("ONNX's Elu does not scale its input")
    (unary("Elu", alpha=float(alpha)) if scale == 1 else unary("Selu", alpha=float(alpha), gamma=float(scale)))(piece)


def _gelu(piece: Piece) -> None:
    tanh = piece.argument(1) == "tanh"
    unary("Gelu", approximate="tanh" if tanh else "none")(piece)


def _gated(*ops: str, **of_first: Any) -> Rule:
    """x times what some operators make of it. ONNX has Mish and HardSwish, but not each runtime, which then has no time
    of them."""

    def rule(piece: Piece) -> None:
        x = piece.tensor(0)
        given = gate = piece.of("input", x)
        for number, op in enumerate(ops):
            before, gate = gate, piece.of("hidden", x)
            piece.node(op, (before,), (gate,), **({} if number else of_first))
        piece.node("Mul", (given, gate), (piece.of("output", x),))

    return rule


def _glu(piece: Piece) -> None:
    """Its halves are two inputs, so that none is copied."""
    out = piece.result()
    left, right, gate = piece.of("input", out), piece.of("input", out), piece.of("hidden", out)
    piece.node("Sigmoid", (right,), (gate,))
    piece.node("Mul", (left, gate), (piece.of("output", out),))


_COMPARISONS, _DIVISIONS = ("Equal", "Greater", "Less"), ("Div", "Mod")


def binary(op: str, *, negated: bool = False, swapped: bool = False) -> Rule:
    def rule(piece: Piece) -> None:
        """For two tensors, or a tensor and a number. Elements of another type than the result's are cast."""
        left, right, out = piece.layer.args[0], piece.layer.args[1], piece.result()
        dtype = _compared([left, right]) if op.startswith(_COMPARISONS) else out.dtype
        if op in _DIVISIONS and "float" not in dtype and is_tensor(right):
            raise CannotHoldError("it divides integers by a tensor, which may hold a 0")
        names = [_operand(piece, side, dtype) for side in ((right, left) if swapped else (left, right))]
        made = piece.of("hidden" if negated else "output", out)
        piece.node(op, names, (made,))
        if negated:
            piece.node("Not", (made,), (piece.of("output", out),))

    return rule


def _compared(sides: Sequence[Any]) -> str:
    """The type that both sides are compared in: floats before integers, long before short."""
    given = tensors_of(sides)
    dtypes = [spec.dtype for spec in given if spec.shape] or [spec.dtype for spec in given]
    return max(dtypes, key=lambda dtype: ("float" in dtype, ITEM_SIZE[dtype]))


def _operand(piece: Piece, side: Any, dtype: str) -> str:
    if not is_tensor(side):
        return piece.scalar(side if side is not None else 1, dtype)
    shape = tuple(side["shape"])
    if side["dtype"] == dtype or not shape:  # a number that became a tensor is as good as a number
        return piece.value("input", shape, dtype)
    given, cast = piece.value("input", shape, side["dtype"]), piece.value("hidden", shape, dtype)
    piece.node("Cast", (given,), (cast,), to=DTYPES[dtype])
    return cast


def _bitwise(op: str) -> Rule:
    """Booleans have operators of their own."""

    def rule(piece: Piece) -> None:
        name = op if piece.result().dtype == "bool" else f"Bitwise{op}"
        (unary(name) if op == "Not" else binary(name))(piece)

    return rule


def _remainder(piece: Piece) -> None:
    if "float" in piece.result().dtype:
        raise CannotHoldError("ONNX's remainder of floats has another sign")
    binary("Mod")(piece)


def _bounded(piece: Piece, least: Any, most: Any) -> None:
    """None: without this bound."""
    x = piece.tensor(0)
    if is_tensor(least) or is_tensor(most):
        raise CannotHoldError("its bounds are tensors")
    if least is None and most is None:
        raise ValueError("no bounds")
    op = "Max" if most is None else "Min" if least is None else "Clip"
    bounds = [piece.scalar(n, x.dtype) for n in (least, most) if n is not None]
    piece.node(op, (piece.of("input", x), *bounds), (piece.of("output", piece.result()),))


def _where(piece: Piece) -> None:
    specs = [piece.tensor(i) for i in range(3)]
    piece.node("Where", [piece.of("input", s) for s in specs], (piece.of("output", piece.result()),))


def _masked_fill(piece: Piece) -> None:
    """An infinite number is not kept; masks have the lowest."""
    x, mask, number = piece.tensor(0), piece.tensor(1), piece.argument(2, -math.inf)
    given = piece.of("input", x)
    condition = piece.of("input", mask)
    fill = piece.value("input", (), x.dtype) if is_tensor(number) else piece.scalar(number, x.dtype)
    piece.node("Where", (condition, fill, given), (piece.of("output", piece.result()),))


def _prelu(piece: Piece) -> None:
    x, slope = piece.tensor(0), piece.tensor(1)
    piece.node("PRelu", (piece.of("input", x), piece.of("weight", slope)), (piece.of("output", x),))


_HARD: dict[str, Any] = {"alpha": 1 / 6, "beta": 0.5}

POINTWISE: dict[str, Rule] = {
    "relu": unary("Relu"), "sigmoid": unary("Sigmoid"), "tanh": unary("Tanh"), "gelu": _gelu,
    "mish": _gated("Softplus", "Tanh"),
    "exp": unary("Exp"), "log": unary("Log"), "sqrt": unary("Sqrt"), "neg": unary("Neg"), "abs": unary("Abs"),
    "erf": unary("Erf"), "sin": unary("Sin"), "cos": unary("Cos"), "reciprocal": unary("Reciprocal"),
    "sign": unary("Sign"), "sgn": unary("Sign"), "ceil": unary("Ceil"), "floor": unary("Floor"),
    "rsqrt": steps(("Sqrt", {}), ("Reciprocal", {})),
    "softplus": unary("Softplus"), "elu": _elu, "celu": _with_alpha("Celu", 1.0),
    "leaky_relu": _with_alpha("LeakyRelu", 0.01),
    "hardswish": _gated("HardSigmoid", **_HARD), "hardsigmoid": unary("HardSigmoid", **_HARD),
    "silu": _gated("Sigmoid"), "glu": _glu, "_prelu_kernel": _prelu,
    **dict.fromkeys(("clamp", "clamp_min"), lambda piece: _bounded(piece, piece.argument(1), piece.argument(2))),
    "clamp_max": lambda piece: _bounded(piece, None, piece.argument(1)),
    "hardtanh": lambda piece: _bounded(piece, piece.argument(1, -1.0), piece.argument(2, 1.0)),
    "add": binary("Add"), "sub": binary("Sub"), "rsub": binary("Sub", swapped=True), "mul": binary("Mul"),
    "div": binary("Div"), "pow": binary("Pow"),
    "remainder": _remainder, "maximum": binary("Max"), "minimum": binary("Min"),
    "eq": binary("Equal"), "ne": binary("Equal", negated=True), "gt": binary("Greater"), "lt": binary("Less"),
    "ge": binary("GreaterOrEqual"), "le": binary("LessOrEqual"),
    "bitwise_not": _bitwise("Not"), "bitwise_and": _bitwise("And"), "bitwise_or": _bitwise("Or"),
    "bitwise_xor": _bitwise("Xor"), "logical_not": unary("Not"), "logical_and": binary("And"),
    "logical_or": binary("Or"), "logical_xor": binary("Xor"),
    "where": _where, "masked_fill": _masked_fill,
}  # fmt: skip
