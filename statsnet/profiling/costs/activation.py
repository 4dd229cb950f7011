"""Activations and their gradients, in FLOPs per element (elementary operations, see elementwise.py).

sigmoid and tanh are library functions (1). gelu: x/√2, erf, add, two products; with tanh: four products, two
additions, tanh, two products. softplus: exp, log1p, comparison. silu: sigmoid, product.
"""

from __future__ import annotations

from functools import partial

from statsnet.profiling.costs.call import Cost, OperatorCall
from statsnet.profiling.costs.elementwise import pointwise
from statsnet.profiling.costs.registry import operator_cost

_FORWARD = {
    "relu": 1, "threshold": 1, "sigmoid": 1, "tanh": 1, "relu6": 2, "hardtanh": 2, "leaky_relu": 2,
    "prelu": 2, "_prelu_kernel": 2, "rrelu_with_noise": 2, "rrelu": 2, "hardshrink": 2, "silu": 2,
    "glu": 2, "elu": 3, "softplus": 3, "softshrink": 3, "logit": 3, "celu": 4, "selu": 4, "hardsigmoid": 4,
    "mish": 4, "hardswish": 5, "log_sigmoid_forward": 6,
}  # fmt: skip

_BACKWARD = {
    "threshold_backward": 1, "hardtanh_backward": 2, "leaky_relu_backward": 2, "rrelu_with_noise_backward": 2,
    "hardshrink_backward": 2, "softshrink_backward": 2, "glu_backward": 2.5, "_prelu_kernel_backward": 4,
    "sigmoid_backward": 3, "tanh_backward": 3, "hardsigmoid_backward": 3, "elu_backward": 4,
    "logit_backward": 3, "softplus_backward": 5, "log_sigmoid_backward": 5, "hardswish_backward": 5,
    "silu_backward": 6, "mish_backward": 10,
}  # fmt: skip
"""_prelu_kernel: both gradients; silu: σ, 1-σ, x·(1-σ), +1, ·σ, ·dy; glu: 5 for each pair of outputs."""

_GELU = {False: (5, 11), True: (9, 18)}
"""Forward and backward, with erf and with tanh."""


@operator_cost("gelu")
def _gelu(call: OperatorCall) -> Cost:
    return pointwise(call, _GELU[call.arg(1) == "tanh"][0])


@operator_cost("gelu_backward")
def _gelu_backward(call: OperatorCall) -> Cost:
    return pointwise(call, _GELU[call.arg(2) == "tanh"][1])


for _name, _flops in (_FORWARD | _BACKWARD).items():
    operator_cost(_name)(partial(pointwise, per_element=_flops))
