"""Shape classes: what decides, apart from the library's kernel, how an operator scales from device to device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from statsnet.signatures.categories import base_name, categorize
from statsnet.signatures.operators import TensorSpec, is_tensor, tensors_of

MANY_IMAGES = 16
"""On one thread, ATen runs a pointwise convolution of fewer images as its own matrix product, and one of more images
in oneDNN (`ConvParams::use_mkldnn` in aten/src/ATen/native/Convolution.cpp). From two threads to one, the first takes
four times as long, the second twice."""


GRAIN = 32768
"""With fewer elements, ATen keeps an element-wise operator on one thread (`GRAIN_SIZE` in aten/src/ATen/Parallel.h)."""


def shape_class(op: str, args: list[Any], outputs: list[Any]) -> str:
    """Convolutions by kernel, stride and grouping, pointwise ones also by their batch; matrix products by depth (powers
    of four) and rows (one, few, many); normalisations by the length of a row that is contiguous in memory and has one
    mean (powers of four); everything else by the cache level that its tensors would fill, or as too small to be split
    among threads."""
    base = base_name(op)
    if base.startswith("convolution") and len(args) > (9 if base.endswith("backward") else 8):
        return _convolution(base, args)
    if base in ("mm", "addmm", "bmm", "baddbmm", "linear"):
        specs = [TensorSpec.from_dict(a) for a in args if is_tensor(a)]
        operands = [s for s in specs if len(s.shape) >= 2][-2:]
        if len(operands) == 2:
            depth, rows = operands[0].shape[-1], math.prod(operands[0].shape[:-1])
            return f"product depth 4^{_quarter(depth)} rows {'1' if rows == 1 else 'few' if rows < 16 else 'many'}"
    tensors = [*tensors_of(args), *tensors_of(outputs)]
    if max((math.prod(t.shape) for t in tensors), default=0) < GRAIN:
        return "one thread"
    if tensors and categorize(op, "forward") == "normalization":
        # Vectors run along a row: short rows react differently to a narrower dtype or to shorter vectors.
        return f"rows 4^{_quarter(_row_length(base, tensors[0].shape))}"
    nbytes = sum(t.nbytes for t in tensors)
    return "L2" if nbytes < 2**20 else "L3" if nbytes < 2**25 else "memory"


def _row_length(base: str, shape: tuple[int, ...]) -> int:
    """Elements of one contiguous row: a map, or what a layer norm averages; without maps, the channels."""
    of_rows = "layer" in base or "rms" in base or len(shape) < 3
    return shape[-1] if of_rows else math.prod(shape[2:])


_WEIGHTS = {"convolution": (1,), "addmm": (2,), "mm": (1,), "linear": (1,), "mkldnn_rnn_layer": (1, 2)}
"""Base name of a product -> places of its weights among its arguments."""


def weight_bytes(op: str, phase: str, args: Sequence[Any]) -> int:
    """Bytes of the weights that a forward product reads, however many rows it has; 0 for everything else. The operands
    of a batched product are not weights."""
    places = _WEIGHTS.get(base_name(op), ()) if phase == "forward" else ()
    return sum(TensorSpec.from_dict(args[i]).nbytes for i in places if i < len(args) and is_tensor(args[i]))


def _convolution(base: str, args: list[Any]) -> str:
    if base == "convolution_backward":
        weight, stride, transposed, groups = args[2], args[4], args[7], args[9]
    else:
        weight, stride, transposed, groups = args[1], args[3], args[6], args[8]
    kernel = "x".join(str(k) for k in weight["shape"][2:])
    strided = " strided" if any(s > 1 for s in (stride if isinstance(stride, list) else [stride])) else ""
    grouped = " grouped" if groups > 1 else ""
    few = not strided and {*kernel.split("x")} == {"1"} and _images(base, args) < MANY_IMAGES
    other = " transposed" if transposed else ""
    return f"kernel {kernel}{other}{strided}{grouped}{' few images' if few else ''}"


def _images(base: str, args: list[Any]) -> int:
    return int(args[1 if base == "convolution_backward" else 0]["shape"][0])


def _quarter(value: int) -> int:
    return round(math.log(max(value, 1), 4))
