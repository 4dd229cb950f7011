"""Poolings: one FLOP (addition or comparison) per element of each window; averages divide once more."""

from __future__ import annotations

import math

from statsnet.profiling.costs.call import Cost, MisfitError, OperatorCall, dimensions, item_bytes
from statsnet.profiling.costs.registry import operator_cost


def _window(call: OperatorCall, kernel_index: int, name_rank: int) -> int:
    kernel = call.integers(kernel_index)
    if len(kernel) == 1:
        kernel *= name_rank
    if len(kernel) != name_rank or min(kernel) < 0:
        raise MisfitError(f"{call.op}: the kernel's size does not fit")
    return math.prod(kernel)


def _rank(call: OperatorCall) -> int:
    """The number of axes: 2 for `max_pool2d...`."""
    name = call.op.split(".")[1]
    return next(int(digit) for digit in name if digit.isdigit())


@operator_cost("max_pool1d", "max_pool2d", "max_pool3d", "max_pool1d_with_indices", "max_pool2d_with_indices",
               "max_pool3d_with_indices", "mkldnn_max_pool2d", "mkldnn_max_pool3d", "fractional_max_pool2d",
               "fractional_max_pool3d", "quantized_max_pool1d", "quantized_max_pool2d", "quantized_max_pool3d",
               "avg_pool1d", "avg_pool2d", "avg_pool3d")  # fmt: skip
def _pool(call: OperatorCall) -> Cost:
    """Of K elements, K comparisons; or K - 1 additions and a division."""
    return call.cost(call.output().numel * _window(call, 1, _rank(call)))


@operator_cost("avg_pool2d_backward", "avg_pool3d_backward")
def _average_pool_backward(call: OperatorCall) -> Cost:
    """A division, and an addition per element of the window. The input only gives its shape and is not read."""
    grad = call.tensor(0)
    return call.cost(grad.numel * (_window(call, 2, _rank(call)) + 1), read=grad.nbytes)


@operator_cost("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward",
               "adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward",
               "fractional_max_pool2d_backward", "fractional_max_pool3d_backward")  # fmt: skip
def _max_pool_backward(call: OperatorCall) -> Cost:
    """One addition per gradient, at its index. The input only gives its shape and is not read."""
    return call.cost(call.tensor(0).numel, read=call.bytes_in - call.tensor(1).nbytes)


@operator_cost("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d",
               "_adaptive_avg_pool3d", "mkldnn_adaptive_avg_pool2d")  # fmt: skip
def _adaptive_average(call: OperatorCall) -> Cost:
    """Windows tile the input, so each element counts once; and one division per output."""
    x, out = call.tensor(0), call.output()
    return call.cost(max(x.numel, out.numel) + out.numel)


@operator_cost("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max(call: OperatorCall) -> Cost:
    return call.cost(max(call.tensor(0).numel, call.output().numel))


@operator_cost("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def _adaptive_average_backward(call: OperatorCall) -> Cost:
    grad, out = call.tensor(0), call.output()
    return call.cost(max(grad.numel, out.numel) + grad.numel, read=grad.nbytes)


@operator_cost("max_unpool2d", "max_unpool3d")
def _unpool(call: OperatorCall) -> Cost:
    return call.cost()


_ROI_SAMPLES = 4
"""Assumed samples per output cell if the sampling ratio adapts to the box, which depends on values."""


@operator_cost("torchvision.roi_align")
def _roi_align(call: OperatorCall) -> Cost:
    """x, boxes, scale, height, width, sampling ratio, ...: bilinear samples (4 multiply-adds), averaged."""
    x, out = call.tensor(0), call.output()
    ratio = int(call.number(5))
    samples = ratio * ratio if ratio > 0 else _ROI_SAMPLES
    touched = min(x.nbytes, 4 * samples * out.numel * item_bytes(x))
    return call.cost(out.numel * samples * (8 + 1), read=touched + call.tensor(1).nbytes)


@operator_cost("torchvision._roi_align_backward")
def _roi_align_backward(call: OperatorCall) -> Cost:
    """grad, boxes, scale, height, width, batch, channels, rows, columns, sampling ratio, aligned."""
    ratio = int(call.number(9))
    samples = ratio * ratio if ratio > 0 else _ROI_SAMPLES
    return call.cost(call.tensor(0).numel * samples * (8 + 1))


@operator_cost("torchvision.nms")
def _nms(call: OperatorCall) -> Cost:
    """Every pair of boxes is compared (an upper bound): corners 4, extents 4, areas 3, ratio, test."""
    boxes = dimensions(call.tensor(0), 2)[0]
    return call.cost(13 * boxes * (boxes - 1) / 2)
