"""ONNX nodes for operators along axes: normalisation, softmax, reductions, sums so far, sorting."""

from __future__ import annotations

import math
from collections.abc import Sequence

from statsnet.exports.onnx_piece import CannotHoldError, Piece, Rule
from statsnet.exports.onnx_pointwise import binary, unary
from statsnet.signatures.categories import base_name
from statsnet.signatures.operators import is_tensor


def _normalised(piece: Piece, op: str, shape: Sequence[int], parameters: Sequence[Sequence[int]], **more: int) -> None:
    dtype = piece.tensor(0).dtype
    inputs = [piece.value("input", shape, dtype), *(piece.value("weight", sizes, dtype) for sizes in parameters)]
    piece.node(op, inputs, (piece.value("output", shape, dtype),), epsilon=1e-5, **more)


_MAY_TRAIN = ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm")
"""Batch norms of which an argument says whether they find their statistics themselves."""

MOST_GROUPS = 2**16
"""Each has two factors in the file."""


def _batch_norm(piece: Piece) -> None:
    """With statistics of its own batch, each channel is one of a single image: runtimes of inference have no
    BatchNormalization that finds its statistics."""
    x = piece.tensor(0)
    channels = x.shape[1:2]
    if base_name(piece.layer.operator) in _MAY_TRAIN and piece.layer.args[5] is not False:
        shape = (1, *channels, math.prod(x.shape) // x.shape[1])
        _normalised(piece, "InstanceNormalization", shape, [channels] * 2)
    else:
        _normalised(piece, "BatchNormalization", x.shape, [channels] * 4)


def _layer_norm(piece: Piece) -> None:
    sizes = piece.layer.args[1]
    parameters = [sizes] * (2 if is_tensor(piece.layer.args[3]) else 1)
    _normalised(piece, "LayerNormalization", piece.tensor(0).shape, parameters, axis=-len(sizes))


def _group_norm(piece: Piece) -> None:
    """An InstanceNormalization of the groups, then the channels' factors: runtimes take GroupNormalization apart into
    dozens of nodes, and have no time of it."""
    x, groups = piece.tensor(0), int(piece.layer.args[6])
    if not 0 < groups <= MOST_GROUPS or x.shape[1] % groups:
        raise CannotHoldError(f"it has {groups} groups")
    shape = (x.shape[0], groups, x.shape[1] // groups, math.prod(x.shape[2:]))
    given = piece.value("input", shape, x.dtype)
    ones, zeros = (piece.value("constant", (groups,), x.dtype, numbers=(n,) * groups) for n in (1.0, 0.0))
    factors = [piece.value("weight", (*shape[1:3], 1), x.dtype) for i in (1, 2) if is_tensor(piece.layer.args[i])]
    made = [piece.value("hidden", shape, x.dtype) for _ in factors] + [piece.value("output", shape, x.dtype)]
    piece.node("InstanceNormalization", (given, ones, zeros), made[:1], epsilon=1e-5)
    for op, factor, before, after in zip(("Mul", "Add"), factors, made, made[1:], strict=False):
        piece.node(op, (before, factor), (after,))


def _weight_norm(piece: Piece) -> None:
    """A weight, divided by its norms along all axes but one, times a factor. The norms are a result, too."""
    weight, factor, axis = piece.tensor(0), piece.tensor(1), piece.layer.args[2] % len(piece.tensor(0).shape)
    given, times = piece.of("weight", weight), piece.of("weight", factor)
    axes = piece.constant(*(i for i in range(len(weight.shape)) if i != axis))
    made, norms = piece.of("output", piece.result()), piece.of("output", piece.result(1))
    ratio = piece.of("hidden", factor)
    piece.node("ReduceL2", (given, axes), (norms,), keepdims=1)
    piece.node("Div", (times, norms), (ratio,))
    piece.node("Mul", (given, ratio), (made,))


def _softmax(op: str) -> Rule:
    return lambda piece: unary(op, axis=int(piece.layer.args[1]))(piece)


def _axes(piece: Piece, place: int = 1) -> list[int]:
    """All where none are given."""
    given = piece.argument(place)
    if isinstance(given, int) and not isinstance(given, bool):
        return [given]
    return list(given) if isinstance(given, list) and given else list(range(len(piece.tensor(0).shape)))


def _reduced(piece: Piece, op: str, axes: list[int]) -> None:
    x, out = piece.tensor(0), piece.result()
    kept = int(len(out.shape) == len(x.shape))
    piece.node(op, (piece.of("input", x), piece.constant(*axes)), (piece.of("output", out),), keepdims=kept)


def _reduce(op: str) -> Rule:
    return lambda piece: _reduced(piece, op, _axes(piece))


def _norm(piece: Piece) -> None:
    """Its order comes before its axes."""
    order = piece.argument(1, 2)
    if order not in (1, 2):
        raise CannotHoldError("ONNX has norms of the first and second order alone")
    _reduced(piece, f"ReduceL{order:.0f}", _axes(piece, 2))


def _extreme(op: str) -> Rule:
    """`max` and `min`: of all elements, of two tensors, or along an axis, and then with the place of each."""

    def rule(piece: Piece) -> None:
        if is_tensor(piece.argument(1)):
            binary(op)(piece)
            return
        _reduced(piece, f"Reduce{op}", _axes(piece))
        if len(piece.layer.outputs) > 1:
            x, out = piece.nodes[0].inputs[0], piece.result(1)
            kept = int(len(out.shape) == len(piece.tensor(0).shape))
            piece.node(f"Arg{op}", (x,), (piece.of("output", out),), axis=int(piece.argument(1)), keepdims=kept)

    return rule


def _place_of(op: str) -> Rule:
    """Without an axis, that among all elements in a row."""

    def rule(piece: Piece) -> None:
        x, out, axis = piece.tensor(0), piece.result(), piece.argument(1)
        given = piece.value("input", (math.prod(x.shape),) if axis is None else x.shape, x.dtype)
        kept = int(axis is not None and len(out.shape) == len(x.shape))
        piece.node(op, (given,), (piece.of("output", out),), axis=int(axis or 0), keepdims=kept)

    return rule


def _cumsum(piece: Piece) -> None:
    x, axis = piece.tensor(0), piece.scalar(piece.layer.args[1], "int64")
    if not x.shape:
        raise CannotHoldError("it has one element")
    piece.node("CumSum", (piece.of("input", x), axis), (piece.of("output", piece.result()),))


def _top(piece: Piece, count: int, axis: int, largest: bool) -> None:
    x = piece.tensor(0)
    outputs = [piece.of("output", piece.result(place)) for place in range(2)]
    piece.node(
        "TopK", (piece.of("input", x), piece.constant(count)), outputs, axis=axis, largest=int(largest), sorted=1
    )


def _topk(piece: Piece) -> None:
    count, axis, largest = piece.argument(1), piece.argument(2, -1), piece.argument(3, True)
    _top(piece, int(count), int(axis), bool(largest))


def _sort(piece: Piece) -> None:
    """With an axis and a direction; `sort.stable` says first whether it is stable."""
    first = 2 if piece.layer.operator.endswith(".stable") else 1
    axis, descending = piece.argument(first, -1), piece.argument(first + 1, False)
    _top(piece, piece.tensor(0).shape[axis], int(axis), bool(descending))


OVER_AXES: dict[str, Rule] = {
    **dict.fromkeys((*_MAY_TRAIN, "_native_batch_norm_legit_no_training"), _batch_norm),
    "native_layer_norm": _layer_norm, "native_group_norm": _group_norm, "_weight_norm_interface": _weight_norm,
    **dict.fromkeys(("_softmax", "_safe_softmax"), _softmax("Softmax")), "_log_softmax": _softmax("LogSoftmax"),
    "mean": _reduce("ReduceMean"), "sum": _reduce("ReduceSum"), "prod": _reduce("ReduceProd"),
    "amax": _reduce("ReduceMax"), "amin": _reduce("ReduceMin"), "any": _reduce("ReduceMax"),
    "all": _reduce("ReduceMin"),
    "logsumexp": _reduce("ReduceLogSumExp"), "linalg_vector_norm": _norm,
    "max": _extreme("Max"), "min": _extreme("Min"), "argmax": _place_of("ArgMax"), "argmin": _place_of("ArgMin"),
    "cumsum": _cumsum, "topk": _topk, "sort": _sort,
}  # fmt: skip
