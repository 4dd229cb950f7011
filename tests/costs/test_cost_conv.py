"""Convolutions against closed forms worked out by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from clusters import tensor

from statsnet.profiling.costs import cost_of


def test_stride_padding_and_bias(cost, meta):
    x, w, b = meta(2, 3, 9, 11), meta(8, 3, 3, 5), meta(8)
    got = cost(lambda: F.conv2d(x, w, b, stride=2, padding=(1, 2)), "convolution")
    # rows (9 + 2 - 3) // 2 + 1 = 5, columns (11 + 4 - 5) // 2 + 1 = 6; 3·3·5 = 45 multiply-adds each
    assert got.flops == 2 * (2 * 8 * 5 * 6) * 45
    assert got.bytes_read == 4 * (2 * 3 * 9 * 11 + 8 * 45 + 8)
    assert got.bytes_written == 4 * 2 * 8 * 5 * 6


def test_groups_divide_the_work(cost, meta):
    x = meta(1, 16, 8, 8)
    full = cost(lambda: F.conv2d(x, meta(32, 16, 3, 3), padding=1), "convolution")
    grouped = cost(lambda: F.conv2d(x, meta(32, 4, 3, 3), padding=1, groups=4), "convolution")
    depthwise = cost(lambda: F.conv2d(x, meta(16, 1, 3, 3), padding=1, groups=16), "convolution")
    assert full.flops == 4 * grouped.flops == 2 * 32 * 64 * 16 * 9
    assert depthwise.flops == 2 * 16 * 64 * 9


def test_dilation_changes_only_the_size_of_the_output(cost, meta):
    got = cost(lambda: F.conv1d(meta(4, 6, 20), meta(5, 6, 3), dilation=4), "convolution")
    assert got.flops == 2 * 4 * 5 * (20 - 8) * 6 * 3


def test_three_dimensions_and_half_precision(cost, meta):
    x, w = meta(1, 2, 4, 4, 4, dtype=torch.float16), meta(3, 2, 2, 2, 2, dtype=torch.float16)
    got = cost(lambda: F.conv3d(x, w), "convolution")
    assert got.flops == 2 * 3 * 27 * 2 * 8
    assert got.bytes_read == 2 * (2 * 64 + 3 * 2 * 8)


def test_transposed_convolution_visits_its_weight_once_per_input(cost, meta):
    x, w = meta(2, 6, 5, 5), meta(6, 4, 3, 3)
    got = cost(lambda: F.conv_transpose2d(x, w, stride=2), "convolution")
    assert got.flops == 2 * (2 * 25) * 6 * 4 * 9
    assert got.bytes_written == 4 * 2 * 4 * 11 * 11


@pytest.mark.parametrize(
    ("mask", "products", "sums"),
    [((1, 1, 1), 2, 1), ((0, 1, 1), 1, 1), ((1, 0, 0), 1, 0), ((0, 0, 1), 0, 1), ((0, 1, 0), 1, 0)],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_backward_honours_the_output_mask(mask, products, sums, transposed):
    if transposed:
        x, w, grad = tensor(2, 8, 7, 7), tensor(8, 4, 3, 3), tensor(2, 4, 9, 9)
        positions = 2 * 49
    else:
        x, w, grad = tensor(2, 4, 9, 9), tensor(8, 4, 3, 3), tensor(2, 8, 7, 7)
        positions = 2 * 49
    args = [grad, x, w, [8], [1, 1], [0, 0], [1, 1], transposed, [0, 0], 1, [bool(m) for m in mask]]
    channels = 4 if transposed else 8
    outputs = [x if mask[0] else None, w if mask[1] else None, tensor(channels) if mask[2] else None]
    got = cost_of("aten.convolution_backward.default", args, outputs)
    grad_numel = 2 * channels * (81 if transposed else 49)
    assert got.flops == products * 2 * positions * 8 * 4 * 9 + sums * grad_numel
    x_bytes, w_bytes = 4 * 2 * (8 * 49 if transposed else 4 * 81), 4 * 8 * 4 * 9
    assert got.bytes_read == 4 * grad_numel + mask[0] * w_bytes + mask[1] * x_bytes
    assert got.bytes_written == mask[0] * x_bytes + mask[1] * w_bytes + mask[2] * 4 * channels


def test_backward_as_autograd_calls_it(cost):
    x, w = torch.randn(1, 3, 6, 6), torch.randn(4, 3, 3, 3, requires_grad=True)
    got = cost(lambda: F.conv2d(x, w).sum().backward(), "convolution_backward")
    assert got.flops == 2 * 16 * 4 * 27  # the first layer needs no gradient of its input
    assert got.bytes_written == 4 * 4 * 27


def test_composite_convolution_without_a_batch(cost, meta):
    with torch.inference_mode():
        got = cost(lambda: F.conv2d(meta(3, 8, 8), meta(4, 3, 3, 3)), "conv2d")
    assert got.flops == 2 * 4 * 36 * 27


def test_cudnn_convolution_with_relu():
    args = [tensor(1, 3, 8, 8), tensor(4, 3, 3, 3), None, [1, 1], [0, 0], [1, 1], 1]
    got = cost_of("aten.cudnn_convolution_relu.default", args, [tensor(1, 4, 6, 6)])
    assert got.flops == 2 * 4 * 36 * 27 + 4 * 36
