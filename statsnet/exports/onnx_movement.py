"""ONNX nodes for operators that move elements, or fill tensors, and compute nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from statsnet.exports.onnx_piece import DTYPES, CannotHoldError, Piece, Rule
from statsnet.signatures.operators import TensorSpec, is_tensor, tensors_of


def _copy(piece: Piece) -> None:
    _copied(piece, piece.tensor(0), piece.result())


def _copy_into(piece: Piece) -> None:
    _copied(piece, piece.tensor(1), piece.result())


def _copied(piece: Piece, source: TensorSpec, out: TensorSpec) -> None:
    """Both sides have their axes as they lie in memory: another order of them is a Transpose. An axis of which all
    elements are one has one, and an Expand; another element type is a Cast."""
    rank = len(out.shape)
    shape = (1,) * (rank - len(source.shape)) + source.shape
    strides = (0,) * (rank - len(source.shape)) + (source.strides or _dense(source.shape))
    stored = [1 if stride == 0 else n for n, stride in zip(shape, strides, strict=True)]
    if source.touched != math.prod(stored):
        raise CannotHoldError("elements of its operand overlap")
    order, out_order = _from_outside(strides), _from_outside(out.strides or _dense(out.shape))
    moves = [d for d in order if stored[d] > 1] != [d for d in out_order if stored[d] > 1]
    order = order if moves else out_order
    made, wanted = [stored[d] for d in out_order], [out.shape[d] for d in out_order]
    given = piece.value("input", [stored[d] for d in order], source.dtype)
    steps: list[tuple[str, Sequence[int], str]] = []
    if source.dtype != out.dtype:
        steps.append(("Cast", [stored[d] for d in order], out.dtype))
    if moves:
        steps.append(("Transpose", made, out.dtype))
    if made != wanted:
        steps.append(("Expand", wanted, out.dtype))
    steps = steps or [("Identity", wanted, out.dtype)]
    for number, (op, sizes, dtype) in enumerate(steps, 1):
        inputs = (given, piece.constant(*wanted)) if op == "Expand" else (given,)
        given = piece.value("output" if number == len(steps) else "hidden", sizes, dtype)
        more = {"perm": [order.index(d) for d in out_order]} if op == "Transpose" else {}
        piece.node(op, inputs, (given,), **({"to": DTYPES[dtype]} if op == "Cast" else more))


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _from_outside(strides: Sequence[int]) -> list[int]:
    """The axes as they lie in memory."""
    return sorted(range(len(strides)), key=lambda d: (-strides[d], d))


def _fill(piece: Piece) -> None:
    """Its number is an input: runtimes would compute a constant before they run."""
    out = piece.result()
    number, sizes = piece.value("input", (), out.dtype), piece.constant(*out.shape)
    piece.node("Expand", (number, sizes), (piece.of("output", out),))


def _random(op: str) -> Rule:
    def rule(piece: Piece) -> None:
        out = piece.result()
        if ".Tensor_" in piece.layer.operator or piece.layer.operator.endswith(".float_Tensor"):
            raise CannotHoldError("its mean or deviation is a tensor")
        more: dict[str, Any] = {"shape": list(out.shape), "dtype": DTYPES[out.dtype], "seed": 0.0}
        piece.node(op, (), (piece.of("output", out),), **more)

    return rule


def _bernoulli(piece: Piece) -> None:
    """With one chance for all elements: ONNX's Bernoulli wants one for each."""
    out, chance = piece.result(), piece.argument(1, 0.5)
    if is_tensor(chance) or piece.layer.operator == "aten.bernoulli.default":
        raise CannotHoldError("its chances are a tensor")
    numbers, flags = piece.value("hidden", out.shape, "float32"), piece.value("hidden", out.shape, "bool")
    piece.node("RandomUniform", (), (numbers,), shape=list(out.shape), dtype=DTYPES["float32"], seed=0.0)
    piece.node("Less", (numbers, piece.scalar(chance, "float32")), (flags,))
    piece.node("Cast", (flags,), (piece.of("output", out),), to=DTYPES[out.dtype])


def _concat(piece: Piece) -> None:
    specs, axis = tensors_of(piece.layer.args[:1]), piece.argument(1, 0)
    specs = [s for s in specs if s.numel]
    piece.node("Concat", [piece.of("input", s) for s in specs], (piece.of("output", piece.result()),), axis=int(axis))


def _stack(piece: Piece) -> None:
    out, axis = piece.result(), piece.argument(1, 0)
    axis %= len(out.shape)
    shapes = [(*s.shape[:axis], 1, *s.shape[axis:]) for s in tensors_of(piece.layer.args[:1])]
    inputs = [piece.value("input", shape, out.dtype) for shape in shapes]
    piece.node("Concat", inputs, (piece.of("output", out),), axis=axis)


def _repeat(piece: Piece) -> None:
    x, times = piece.tensor(0), piece.layer.args[1]
    given = piece.value("input", (1,) * (len(times) - len(x.shape)) + x.shape, x.dtype)
    piece.node("Tile", (given, piece.constant(*times)), (piece.of("output", piece.result()),))


def _triangle(*, upper: bool) -> Rule:
    def rule(piece: Piece) -> None:
        x, diagonal = piece.tensor(0), piece.argument(1, 0)
        inputs = (piece.of("input", x), piece.scalar(diagonal, "int64"))
        piece.node("Trilu", inputs, (piece.of("output", x),), upper=int(upper))

    return rule


MOVEMENT: dict[str, Rule] = {
    "clone": _copy, "_to_copy": _copy, "contiguous": _copy, "copy": _copy_into,
    **dict.fromkeys(("zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones",
                     "new_full", "fill", "zero", "scalar_tensor"), _fill),
    **dict.fromkeys(("randn", "randn_like", "normal"), _random("RandomNormal")),
    **dict.fromkeys(("rand", "rand_like", "uniform"), _random("RandomUniform")), "bernoulli": _bernoulli,
    "cat": _concat, "stack": _stack, "repeat": _repeat,
    "triu": _triangle(upper=True), "tril": _triangle(upper=False),
}  # fmt: skip
