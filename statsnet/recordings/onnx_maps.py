"""ONNX's operators over maps [N, C, ...] → ATen's: convolutions, pools, other sizes of a map."""

from __future__ import annotations

from statsnet.recordings.onnx_call import OnnxCall, Translated

MOST_SPATIAL_AXES = 3


def spatial(call: OnnxCall, name: str) -> list[int]:
    """A number for each axis behind the channels; 1 where none is given."""
    given = call.attributes.get(name)
    return [int(n) for n in given] if given else [1] * max(call.rank() - 2, 1)


def _sizes(call: OnnxCall) -> tuple[list[int], list[int]] | None:
    """Of the map that is read and of the one that is written; None if they are not known."""
    shapes = call.shapes()
    if shapes is None or len(shapes[0]) != len(shapes[1]):
        return None
    return shapes[0][2:], shapes[1][2:]


def _extents(call: OnnxCall, kernel: list[int]) -> list[int]:
    """How many elements a window spans."""
    return [d * (k - 1) + 1 for k, d in zip(kernel, spatial(call, "dilations"), strict=False)]


def paddings(call: OnnxCall, kernel: list[int]) -> list[int]:
    """ONNX pads each axis at the begin and at the end, or as much as the result's size asks for; ATen alike on both
    sides: by half of both, rounded up."""
    axes = max(call.rank() - 2, 1)
    pads = call.attributes.get("pads") or [0] * 2 * axes
    both = [int(begin) + int(end) for begin, end in zip(pads[:axes], pads[axes:], strict=False)]
    sizes = _sizes(call)
    if sizes and call.attributes.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER"):
        transposed = call.op == "ConvTranspose"
        fewer, more = sizes if transposed else sizes[::-1]
        each = zip(fewer, more, spatial(call, "strides"), _extents(call, kernel), strict=False)
        both = [max(0, (few - 1) * stride + extent - many) for few, many, stride, extent in each]
    return [-(-n // 2) for n in both]


def convolution(call: OnnxCall) -> list[Translated]:
    weight = call.input(1)
    kernel = weight["shape"][2:] if weight else spatial(call, "kernel_shape")
    transposed, padding = call.op == "ConvTranspose", paddings(call, kernel)
    args = [call.input(0), call.input(1), call.input(2), spatial(call, "strides"), padding,
            spatial(call, "dilations"), transposed, _output_padding(call, kernel, padding),
            int(call.attributes.get("group", 1))]  # fmt: skip
    return [("aten.convolution.default", args)]


def _output_padding(call: OnnxCall, kernel: list[int], padding: list[int]) -> list[int]:
    """By how much a transposed convolution's result is longer than its windows make it."""
    sizes = _sizes(call)
    if call.op != "ConvTranspose" or not sizes:
        return [0] * max(call.rank() - 2, 1)
    each = zip(*sizes, spatial(call, "strides"), _extents(call, kernel), padding, strict=False)
    return [max(0, out - ((n - 1) * stride + extent - 2 * pad)) for n, out, stride, extent, pad in each]


def pool(call: OnnxCall) -> list[Translated] | None:
    axes = max(call.rank() - 2, 1)
    if axes > MOST_SPATIAL_AXES:
        return None
    kernel = spatial(call, "kernel_shape")
    args = [call.input(0), kernel, spatial(call, "strides"), paddings(call, kernel)]
    ceil = bool(call.attributes.get("ceil_mode", 0))
    if call.op == "MaxPool":
        return [(f"aten.max_pool{axes}d_with_indices.default", [*args, spatial(call, "dilations"), ceil])]
    counted = bool(call.attributes.get("count_include_pad", 0))
    divisor = [None] if axes > 1 else []
    return [(f"aten.avg_pool{axes}d.default", [*args, ceil, counted, *divisor])]


def global_pool(call: OnnxCall) -> list[Translated]:
    axes = list(range(2, call.rank()))
    name = "amax.default" if call.op == "GlobalMaxPool" else "mean.dim"
    return [(f"aten.{name}", [call.input(0), axes, True])]


def resize(call: OnnxCall) -> list[Translated] | None:
    mode = call.attributes.get("mode", b"nearest")
    axes = max(call.rank() - 2, 1)
    if axes > MOST_SPATIAL_AXES:
        return None
    kinds = {b"linear": {1: "linear1d", 2: "bilinear2d", 3: "trilinear3d"}, b"cubic": {2: "bicubic2d"}}.get(mode, {})
    sizes, kind = _sizes(call), kinds.get(axes)
    written = [sizes[1]] if sizes else []
    corners = [False] if written and kind else []
    return [(f"aten.upsample_{kind or f'nearest{axes}d'}.default", [call.input(0), *written, *corners])]


def rearranged(call: OnnxCall) -> list[Translated]:
    """Depth to space, or back."""
    name = "pixel_shuffle" if call.op == "DepthToSpace" else "pixel_unshuffle"
    return [(f"aten.{name}.default", [call.input(0), int(call.attributes.get("blocksize", 1))])]
