"""ONNX nodes for operators on maps: pooling, pads, other sizes."""

from __future__ import annotations

import math
from typing import Any

from statsnet.exports.onnx_piece import CannotHoldError, Piece, Rule


def end_padding(size: int, out: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """The most at the end of an axis, up to what is at its begin, that gives this output."""
    needed = (out - 1) * stride + (kernel - 1) * dilation + 1 - size - padding
    return max(0, min(padding, needed + stride - 1)) if needed <= padding else needed


def _pool(op: str) -> Rule:
    def rule(piece: Piece) -> None:
        x, out, args = piece.tensor(0), piece.result(), piece.layer.args
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
        piece.node(op, (piece.of("input", x),), (piece.of("output", out),), kernel_shape=kernel, strides=stride,
                   pads=[*padding, *ends], **more)  # fmt: skip

    return rule


def _adaptive(op: str) -> Rule:
    """Windows of one size, next to each other, where the sizes divide."""

    def rule(piece: Piece) -> None:
        x, out = piece.tensor(0), piece.result()
        space = len(piece.layer.args[1])
        sizes = list(zip(x.shape[-space:], out.shape[-space:], strict=True))
        if len(x.shape) != space + 2:
            raise CannotHoldError("it has no batch")
        if any(n % m for n, m in sizes):
            raise CannotHoldError("its windows have several sizes")
        windows = [n // m for n, m in sizes]
        piece.node(op, (piece.of("input", x),), (piece.of("output", out),), kernel_shape=windows, strides=windows)

    return rule


def _pad(mode: str) -> Rule:
    def rule(piece: Piece) -> None:
        """Torch counts from the last axis, begin and end in turn."""
        x, given = piece.tensor(0), list(piece.layer.args[1])
        begins, ends = given[0::2][::-1], given[1::2][::-1]
        none = [0] * (len(x.shape) - len(begins))
        inputs = [piece.of("input", x), piece.constant(*none, *begins, *none, *ends)]
        if mode == "constant":
            inputs.append(piece.scalar(piece.argument(2, 0), x.dtype))
        piece.node("Pad", inputs, (piece.of("output", piece.result()),), mode=mode)

    return rule


def _resize(mode: str, *, has_corners: bool = True, **attributes: Any) -> Rule:
    def rule(piece: Piece) -> None:
        """With one axis, a second of size 1 is added, which all consumers take."""
        x, out = piece.tensor(0), piece.result()
        given, made = ((*s.shape[:2], *(1,) * (len(s.shape) == 3), *s.shape[2:]) for s in (x, out))
        aligned = has_corners and piece.argument(2) is True
        at = {"coordinate_transformation_mode": "align_corners" if aligned else "pytorch_half_pixel"} | attributes
        inputs = (piece.value("input", given, x.dtype), "", "", piece.constant(*made))
        piece.node("Resize", inputs, (piece.value("output", made, out.dtype),), mode=mode, **at)

    return rule


def _grid_sample(piece: Piece) -> None:
    mode, padding = ("linear", "nearest", "cubic")[piece.argument(2)], ("zeros", "border", "reflection")
    inputs = (piece.of("input", piece.tensor(0)), piece.of("input", piece.tensor(1)))
    piece.node("GridSample", inputs, (piece.of("output", piece.result()),), mode=mode,
               padding_mode=padding[piece.argument(3)], align_corners=int(piece.argument(4) is True))  # fmt: skip


def _affine_grid(piece: Piece) -> None:
    inputs = (piece.of("input", piece.tensor(0)), piece.constant(*piece.layer.args[1]))
    corners = int(piece.argument(2) is True)
    piece.node("AffineGrid", inputs, (piece.of("output", piece.result()),), align_corners=corners)


def _pixel_shuffle(piece: Piece) -> None:
    x, out = piece.tensor(0), piece.result()
    given, made = ((math.prod(s.shape[:-3]), *s.shape[-3:]) for s in (x, out))
    piece.node("DepthToSpace", (piece.value("input", given, x.dtype),), (piece.value("output", made, x.dtype),),
               blocksize=int(piece.layer.args[1]), mode="CRD")  # fmt: skip


_CUBIC: dict[str, Any] = {"cubic_coeff_a": -0.75}
_NEAREST: dict[str, Any] = {"has_corners": False, "coordinate_transformation_mode": "asymmetric",
                            "nearest_mode": "floor"}  # fmt: skip
_EXACT: dict[str, Any] = _NEAREST | {
    "coordinate_transformation_mode": "half_pixel",
    "nearest_mode": "round_prefer_ceil",
}

WINDOWS: dict[str, Rule] = {
    "max_pool2d_with_indices": _pool("MaxPool"), "avg_pool2d": _pool("AveragePool"), "avg_pool3d": _pool("AveragePool"),
    "max_pool3d_with_indices": _pool("MaxPool"),
    "_adaptive_avg_pool2d": _adaptive("AveragePool"), "_adaptive_avg_pool3d": _adaptive("AveragePool"),
    "adaptive_max_pool2d": _adaptive("MaxPool"), "adaptive_max_pool3d": _adaptive("MaxPool"),
    "constant_pad_nd": _pad("constant"),
    **{f"reflection_pad{axes}d": _pad("reflect") for axes in (1, 2, 3)},
    **{f"replication_pad{axes}d": _pad("edge") for axes in (1, 2, 3)},
    **{f"upsample_nearest{axes}d": _resize("nearest", **_NEAREST) for axes in (1, 2, 3)},
    **{f"_upsample_nearest_exact{axes}d": _resize("nearest", **_EXACT) for axes in (1, 2, 3)},
    **dict.fromkeys(("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"), _resize("linear")),
    "upsample_bicubic2d": _resize("cubic", **_CUBIC),
    "_upsample_bilinear2d_aa": _resize("linear", antialias=1),
    "_upsample_bicubic2d_aa": _resize("cubic", antialias=1, **_CUBIC),
    "pixel_shuffle": _pixel_shuffle, "affine_grid_generator": _affine_grid,
    "grid_sampler_2d": _grid_sample, "grid_sampler_3d": _grid_sample,
}  # fmt: skip
