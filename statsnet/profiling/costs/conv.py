"""Convolutions: 2 FLOPs for each weight at each position, padding included; the bias is free.

A plain convolution visits its weights once per output position, a transposed one once per input position;
that covers strides, dilation and groups, because the weight's own shape carries the group's share.
"""

from __future__ import annotations

import math

from statsnet.profiling.costs.call import Cost, MisfitError, OperatorCall, dimensions
from statsnet.profiling.costs.registry import operator_cost
from statsnet.signatures.operators import TensorSpec


def _positions(spec: TensorSpec, weight: TensorSpec) -> int:
    """Positions (batch and space) of a feature map [N, C, *space] or [C, *space]."""
    space = len(weight.shape) - 2
    if space < 1 or len(spec.shape) not in (space + 1, space + 2):
        raise MisfitError("a feature map and its weight do not match")
    batch = spec.shape[0] if len(spec.shape) == space + 2 else 1
    return batch * math.prod(spec.shape[-space:])


def _forward_flops(call: OperatorCall, *, transposed: bool) -> int:
    weight = call.tensor(1)
    visited = call.tensor(0) if transposed else call.output()
    return 2 * weight.numel * _positions(visited, weight)


@operator_cost("convolution", "_convolution", "convolution_overrideable")
def _convolution(call: OperatorCall) -> Cost:
    return call.cost(_forward_flops(call, transposed=call.flag(6)))


@operator_cost(
    "conv1d", "conv2d", "conv3d", "cudnn_convolution", "miopen_convolution", "miopen_depthwise_convolution",
    "mkldnn_convolution", "_slow_conv2d_forward", "slow_conv3d_forward", "slow_conv3d", "thnn_conv2d",
    "slow_conv_dilated2d", "slow_conv_dilated3d", "_conv_depthwise2d", "conv_depthwise3d",
)  # fmt: skip
def _plain(call: OperatorCall) -> Cost:
    return call.cost(_forward_flops(call, transposed=False))


@operator_cost("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cudnn_convolution_transpose")
def _transposed(call: OperatorCall) -> Cost:
    return call.cost(_forward_flops(call, transposed=True))


@operator_cost("cudnn_convolution_relu", "cudnn_convolution_add_relu")
def _with_relu(call: OperatorCall) -> Cost:
    epilogue = 2 if "add_relu" in call.op else 1
    return call.cost(_forward_flops(call, transposed=False) + epilogue * call.output().numel)


@operator_cost("conv_tbc")
def _time_batch_channel(call: OperatorCall) -> Cost:
    kernel, channels, _ = dimensions(call.tensor(1), 3)
    return call.cost(2 * call.output().numel * kernel * channels)


@operator_cost("convolution_backward")
def _backward(call: OperatorCall) -> Cost:
    """Both gradients cost as much as the forward pass; the bias's is a sum over the output's gradient."""
    grad, x, weight = call.tensor(0), call.tensor(1), call.tensor(2)
    wants_input, wants_weight, wants_bias = call.mask(10, 3)
    visited = x if call.flag(7) else grad
    products = 2 * weight.numel * _positions(visited, weight)
    flops = products * (wants_input + wants_weight) + (grad.numel if wants_bias else 0)
    read = grad.nbytes + wants_input * weight.nbytes + wants_weight * x.nbytes
    return call.cost(flops, read=read)


@operator_cost("torchvision.deform_conv2d")
def _deformable(call: OperatorCall) -> Cost:
    """As a convolution, plus a bilinear sample (4 multiply-adds) for each weight's input at each position."""
    x, weight, out = call.tensor(0), call.tensor(1), call.output()
    positions = _positions(out, weight)
    samples = positions * dimensions(x, 4)[1] * math.prod(weight.shape[2:])
    return call.cost(2 * weight.numel * positions + 8 * samples)
