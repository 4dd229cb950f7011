"""ONNX nodes for look-ups by index, and for writes by index. Indices are inputs."""

from __future__ import annotations

import math

from statsnet.exports.onnx_piece import CannotHoldError, Piece, Rule
from statsnet.signatures.operators import TensorSpec, is_tensor
from statsnet.signatures.tensor_lists import each_in_list


def _roll(piece: Piece) -> None:
    """Along all axes from the first to the last that it moves, which are one here."""
    x, axes = piece.tensor(0), piece.argument(2)
    places = [axis % len(x.shape) for axis in axes or range(len(x.shape))]
    first, last = min(places), max(places) + 1
    length = math.prod(x.shape[first:last])
    shape = (*x.shape[:first], length, *x.shape[last:])
    inputs = (piece.value("input", shape, x.dtype), piece.value("input", (length,), "int64"))
    piece.node("Gather", inputs, (piece.value("output", shape, x.dtype),), axis=first)


def _embedding(piece: Piece) -> None:
    table, indices = piece.tensor(0), piece.tensor(1)
    rows = piece.of("input", indices)
    piece.node("Gather", (piece.of("weight", table), rows), (piece.of("output", piece.result()),), axis=0)


def _embedding_bag(piece: Piece) -> None:
    """Bags of one size, as signatures do not tell theirs: the rows, weighted if they have weights, and their sum."""
    table, indices, out = piece.tensor(0), piece.tensor(1), piece.result()
    bags, width = out.shape
    if indices.numel % bags:
        raise CannotHoldError("its bags have several sizes")
    rows = (bags, indices.numel // bags)
    given = (piece.of("weight", table), piece.value("input", rows, indices.dtype))
    found = piece.value("hidden", (*rows, width), table.dtype)
    piece.node("Gather", given, (found,), axis=0)
    if is_tensor(piece.argument(6)):
        weights, weighted = (
            piece.value("input", (*rows, 1), table.dtype),
            piece.value("hidden", (*rows, width), table.dtype),
        )
        piece.node("Mul", (found, weights), (weighted,))
        found = weighted
    how = ("ReduceSum", "ReduceMean", "ReduceMax")[piece.argument(4, 0)]
    piece.node(how, (found, piece.constant(1)), (piece.of("output", out),), keepdims=0)


def _index_select(piece: Piece) -> None:
    inputs = (piece.of("input", piece.tensor(0)), piece.of("input", piece.tensor(2)))
    piece.node("Gather", inputs, (piece.of("output", piece.result()),), axis=int(piece.layer.args[1]))


def _gather(piece: Piece) -> None:
    """Along other axes than the one that it looks up, it reads no more than the indices have."""
    x, axis, indices = piece.tensor(0), piece.layer.args[1] % len(piece.tensor(0).shape), piece.tensor(2)
    shape = [n if d == axis else min(n, m) for d, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True))]
    inputs = (piece.value("input", shape, x.dtype), piece.of("input", indices))
    piece.node("GatherElements", inputs, (piece.of("output", piece.result()),), axis=axis)


def _indexed(piece: Piece) -> tuple[int, tuple[int, ...], int]:
    """Of x[..., i, j, ...]: the first axis that is indexed, the shape of its indices, and how many axes are."""
    entries = list(each_in_list(piece.layer.args[1]["tensors"]))
    specs = [TensorSpec.from_dict(entry) for entry in entries if entry is not None]
    first = next((i for i, entry in enumerate(entries) if entry is not None), 0)
    if any(spec.dtype in ("bool", "uint8") for spec in specs):
        raise CannotHoldError("which elements its mask takes is not known")
    if None in entries[first : first + len(specs)] or any(spec.shape != specs[0].shape for spec in specs):
        raise CannotHoldError("ONNX looks up axes that are apart, or by indices of several shapes, in several steps")
    return first, specs[0].shape, len(specs)


def _index(piece: Piece) -> None:
    """Several axes behind others are one here, so that they need no index for each element before them."""
    first, shape, axes = _indexed(piece)
    x, out = piece.tensor(0), piece.result()
    if axes > 1 and not first:
        given = (piece.of("input", x), piece.value("input", (*shape, axes), "int64"))
        piece.node("GatherND", given, (piece.of("output", out),))
        return
    sizes = (*x.shape[:first], math.prod(x.shape[first : first + axes]), *x.shape[first + axes :])
    given = (piece.value("input", sizes, x.dtype), piece.value("input", shape, "int64"))
    piece.node("Gather", given, (piece.of("output", out),), axis=first)


def _index_put(piece: Piece) -> None:
    first, shape, axes = _indexed(piece)
    _rows_written(piece, first, (*shape, axes), "add" if piece.argument(3) else "none")


def _index_add(piece: Piece) -> None:
    if piece.argument(4, 1) != 1:
        raise CannotHoldError("ONNX adds no multiples by index")
    _rows_written(piece, piece.layer.args[1] % len(piece.tensor(0).shape), (*piece.tensor(2).shape, 1), "add")


def _index_copy(piece: Piece) -> None:
    _rows_written(piece, piece.layer.args[1] % len(piece.tensor(0).shape), (*piece.tensor(2).shape, 1), "none")


def _rows_written(piece: Piece, axis: int, indices: tuple[int, ...], reduction: str) -> None:
    x = piece.tensor(0)
    if axis:
        raise CannotHoldError("ONNX writes by index along the first axis alone")
    rows = (*indices[:-1], *x.shape[indices[-1] :])
    inputs = (piece.of("input", x), piece.value("input", indices, "int64"), piece.value("input", rows, x.dtype))
    piece.node("ScatterND", inputs, (piece.of("output", x),), reduction=reduction)


_REDUCTIONS = {"amax": "max", "amin": "min", "sum": "add", "prod": "mul"}


def _scatter(piece: Piece) -> None:
    """Its source has as many elements as there are indices."""
    x, indices, source = piece.tensor(0), piece.tensor(2), piece.argument(3)
    if not is_tensor(source):
        raise CannotHoldError("ONNX writes by index no single number")
    how = piece.argument(4)
    reduces = "reduce" in piece.layer.operator
    if reduces and (how not in _REDUCTIONS or piece.argument(5) is False):
        raise CannotHoldError("ONNX does not reduce so where it writes by index")
    reduction = _REDUCTIONS[how] if reduces else "add" if ".scatter_add" in piece.layer.operator else "none"
    inputs = (piece.of("input", x), piece.of("input", indices), piece.value("input", indices.shape, x.dtype))
    piece.node("ScatterElements", inputs, (piece.of("output", x),), axis=int(piece.layer.args[1]), reduction=reduction)


LOOKUPS: dict[str, Rule] = {
    "embedding": _embedding,
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), _embedding_bag),
    "index_select": _index_select, "gather": _gather, "index": _index, "roll": _roll,
    "index_put": _index_put, "index_add": _index_add, "index_copy": _index_copy,
    **dict.fromkeys(("scatter", "scatter_add", "scatter_reduce"), _scatter),
}  # fmt: skip
