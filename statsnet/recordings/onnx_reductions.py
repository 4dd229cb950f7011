"""ONNX's reductions → ATen's, along the axes that the node names, or by which its result is smaller."""

from __future__ import annotations

from collections.abc import Callable

from statsnet.recordings.onnx_call import OnnxCall, Translated

_ALONG_AXES = {
    "ReduceMean": "mean.dim", "ReduceSum": "sum.dim_IntList", "ReduceMax": "amax.default", "ReduceMin": "amin.default",
    "ReduceLogSumExp": "logsumexp.default", "ReduceLogSum": "sum.dim_IntList",
}  # fmt: skip
_NORMS = {"ReduceL1": 1, "ReduceL2": 2, "ReduceSumSquare": 2}


def _along_axes(call: OnnxCall) -> list[Translated]:
    return [(f"aten.{_ALONG_AXES[call.op]}", [call.input(0), _axes(call), _keeps(call)])]


def _norm(call: OnnxCall) -> list[Translated]:
    args = [call.input(0), _NORMS[call.op], _axes(call), _keeps(call)]
    return [("aten.linalg_vector_norm.default", args)]


def _lp(call: OnnxCall) -> list[Translated]:
    order, axis = int(call.attributes.get("p", 2)), int(call.attributes.get("axis", -1))
    return [("aten.linalg_vector_norm.default", [call.input(0), order, [axis], True])]


def _product(call: OnnxCall) -> list[Translated]:
    """ATen takes one axis or all."""
    axes = _axes(call)
    if axes is not None and len(axes) == 1:
        return [("aten.prod.dim_int", [call.input(0), axes[0], _keeps(call)])]
    return [("aten.prod.default", [call.input(0)])]


def _extreme(call: OnnxCall) -> list[Translated]:
    args = [call.input(0), int(call.attributes.get("axis", 0)), _keeps(call)]
    return [(f"aten.{call.op.lower()}.default", args)]


def _keeps(call: OnnxCall) -> bool:
    return bool(call.attributes.get("keepdims", 1))


def _axes(call: OnnxCall) -> list[int] | None:
    """None if they are not known: then ATen reduces all."""
    if given := call.attributes.get("axes"):
        return [int(axis) for axis in given]
    shapes = call.shapes()
    if shapes is None:
        return None
    sizes, left = shapes[0], list(shapes[1])
    if _keeps(call):  # an axis of one stays as long as it was
        smaller = [axis for axis, (n, m) in enumerate(zip(sizes, left, strict=False)) if n != m]
        return smaller or [axis for axis, n in enumerate(sizes) if n == 1][-1:] or None
    axes: list[int] = []
    for axis, size in enumerate(sizes):
        if left and left[0] == size:
            left.pop(0)
        else:
            axes.append(axis)
    return axes


REDUCTIONS: dict[str, Callable[[OnnxCall], list[Translated]]] = {
    **dict.fromkeys(_ALONG_AXES, _along_axes), **dict.fromkeys(_NORMS, _norm), "LpNormalization": _lp,
    "ReduceProd": _product, "ArgMax": _extreme, "ArgMin": _extreme,
}  # fmt: skip
