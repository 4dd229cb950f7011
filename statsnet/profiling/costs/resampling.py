"""Resampling: 2 FLOPs per tap and output element. Positions and weights are free, because neighbours share them.

Taps: nearest 0 (a copy), linear 2 per axis, cubic 4 per axis.
"""

from __future__ import annotations

import math
from functools import partial

from statsnet.profiling.costs.call import Cost, MisfitError, OperatorCall, dimensions, item_bytes
from statsnet.profiling.costs.registry import operator_cost
from statsnet.signatures.operators import TensorSpec

_TAPS = {
    "upsample_nearest1d": 0, "upsample_nearest2d": 0, "upsample_nearest3d": 0, "_upsample_nearest_exact1d": 0,
    "_upsample_nearest_exact2d": 0, "_upsample_nearest_exact3d": 0, "upsample_linear1d": 2,
    "upsample_bilinear2d": 4, "upsample_trilinear3d": 8, "upsample_bicubic2d": 16,
}  # fmt: skip


def _upsample(call: OperatorCall, taps: int) -> Cost:
    """Reads one element per tap, but at most the whole input."""
    x, out = call.tensor(0), call.output()
    read = min(x.nbytes, max(1, taps) * out.numel * item_bytes(x))
    return call.cost(2 * taps * out.numel, read=read)


def _upsample_backward(call: OperatorCall, taps: int) -> Cost:
    """Each gradient is added to all of its taps."""
    grad = call.tensor(0)
    return call.cost(grad.numel * max(1, 2 * taps))


for _name, _taps in _TAPS.items():
    operator_cost(_name)(partial(_upsample, taps=_taps))
    operator_cost(f"{_name}_backward")(partial(_upsample_backward, taps=_taps))


def _antialias_taps(large: tuple[int, ...], small: tuple[int, ...], per_axis: int) -> int:
    """Where the image shrinks, the filter widens by the same scale."""
    return math.prod(math.ceil(per_axis * max(1.0, a / max(1, b))) for a, b in zip(large[2:], small[2:], strict=True))


@operator_cost("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
def _antialiased(call: OperatorCall) -> Cost:
    x, out = call.tensor(0), call.output()
    taps = _antialias_taps(dimensions(x, 4), dimensions(out, 4), 2 if "bilinear" in call.op else 4)
    return _upsample(call, taps)


@operator_cost("_upsample_bilinear2d_aa_backward", "_upsample_bicubic2d_aa_backward")
def _antialiased_backward(call: OperatorCall) -> Cost:
    grad, out = call.tensor(0), call.output()
    taps = _antialias_taps(dimensions(out, 4), dimensions(grad, 4), 2 if "bilinear" in call.op else 4)
    return _upsample_backward(call, taps)


_GRID_TAPS_PER_AXIS = {0: 2, 1: 0, 2: 4}  # bilinear, nearest, bicubic


def _grid_taps(call: OperatorCall, mode_index: int, x: TensorSpec) -> int:
    axes = len(x.shape) - 2
    if axes not in (2, 3):
        raise MisfitError(f"{call.op}: an image or a volume is expected")
    return int(_GRID_TAPS_PER_AXIS.get(int(call.number(mode_index)), 2) ** axes)


@operator_cost("grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "cudnn_grid_sampler")
def _grid_sample(call: OperatorCall) -> Cost:
    """input, grid, mode, ...: the positions come from the grid, which is read."""
    x, out = call.tensor(0), call.output()
    taps = _grid_taps(call, 2, x)
    read = min(x.nbytes, max(1, taps) * out.numel * item_bytes(x)) + call.tensor(1).nbytes
    return call.cost(2 * taps * out.numel, read=read)


@operator_cost("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def _grid_sample_backward(call: OperatorCall) -> Cost:
    """grad, input, grid, mode, ..., output_mask: gradients of the input and of the grid cost the same."""
    grad, x = call.tensor(0), call.tensor(1)
    taps = max(1, _grid_taps(call, 3, x))
    wants_input, wants_grid = call.mask(6, 2)
    read = grad.nbytes + call.tensor(2).nbytes + wants_grid * x.nbytes
    return call.cost(2 * taps * grad.numel * (wants_input + wants_grid), read=read)
