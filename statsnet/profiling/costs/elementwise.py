"""Element-wise arithmetic, in FLOPs per element of the output.

One FLOP per elementary operation, whatever the type of the numbers: + - × ÷, comparison, maximum, logical and
bit operation, selection, rounding, and every function of a mathematical library (exp, sin, pow, erf ...).
Composite operators count the elementary ones that they are made of.
"""

from __future__ import annotations

from functools import partial

from statsnet.profiling.costs.call import ZERO, Cost, OperatorCall, SparseSpec, is_complex, item_bytes
from statsnet.profiling.costs.registry import operator_cost, operator_costs
from statsnet.signatures.categories import SPECIAL_FUNCTIONS

_ONE = """
    abs neg sign sgn signbit square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p
    sin cos tan asin acos atan sinh cosh asinh acosh atanh erf erfc erfinv lgamma digamma polygamma
    i0 special_i0e special_i1 special_erfcx special_ndtri ceil floor round trunc frac
    mul div true_divide remainder fmod pow atan2 hypot maximum minimum fmax fmin
    copysign nextafter heaviside ldexp gcd lcm eq ne lt le gt ge isnan isinf isfinite isposinf isneginf
    logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not
    bitwise_left_shift bitwise_right_shift __lshift__ __rshift__ __and__ __or__ __xor__
    __ilshift__ __irshift__ __iand__ __ior__ __ixor__ aten.max.other aten.min.other
    multiply divide absolute negative float_power greater greater_equal less less_equal not_equal diff
    aten.where.self aten.where.ScalarSelf aten.where.ScalarOther aten.where.Scalar
    masked_fill clamp_min clamp_max angle conj_physical _conj_physical _masked_scale deg2rad rad2deg frexp
    _standard_gamma_grad _dirichlet_grad
    """

_SEVERAL: dict[str, float] = {
    "floor_divide": 2, "xlogy": 2, "special_xlog1py": 3, "special_entr": 3, "logaddexp": 7, "logaddexp2": 7,
    "sinc": 3, "nan_to_num": 3, "lerp": 3, "polar": 4, "isclose": 4, "linalg_cross": 3, "cross": 3,
    "native_dropout": 3, "_fused_dropout": 3, "aten.div.Tensor_mode": 2, "aten.div.Scalar_mode": 2,
    "native_dropout_backward": 2, "affine_grid_generator": 6,
    "quantize_per_tensor": 4, "quantize_per_channel": 4, "dequantize": 2,
    "fake_quantize_per_tensor_affine_cachemask": 7, "fake_quantize_per_channel_affine_cachemask": 7,
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": 7,
    "fake_quantize_per_tensor_affine_cachemask_backward": 1, "_fused_moving_avg_obs_fq_helper": 9,
}  # fmt: skip
"""lerp: subtract, multiply, add; xlogy: log, multiply; logaddexp: max, subtract, abs, negate, exp, log1p,
add; dropout: compare with p, multiply by the mask, scale; quantise: divide, round, clamp twice (fake: and subtract the
zero point twice, multiply; fused with an observer: and the least and the largest)."""

_ACTIVATIONS: dict[str, float] = {
    "relu": 1, "threshold": 1, "sigmoid": 1, "tanh": 1, "relu6": 2, "hardtanh": 2, "leaky_relu": 2,
    "prelu": 2, "_prelu_kernel": 2, "rrelu_with_noise": 2, "rrelu": 2, "hardshrink": 2, "silu": 2,
    "glu": 2, "elu": 3, "softplus": 3, "softshrink": 3, "logit": 3, "celu": 4, "selu": 4, "hardsigmoid": 4,
    "mish": 4, "hardswish": 5, "log_sigmoid_forward": 6,
    "threshold_backward": 1, "hardtanh_backward": 2, "leaky_relu_backward": 2, "rrelu_with_noise_backward": 2,
    "hardshrink_backward": 2, "softshrink_backward": 2, "glu_backward": 2.5, "_prelu_kernel_backward": 4,
    "sigmoid_backward": 3, "tanh_backward": 3, "hardsigmoid_backward": 3, "elu_backward": 4,
    "logit_backward": 3, "softplus_backward": 5, "log_sigmoid_backward": 5, "hardswish_backward": 5,
    "silu_backward": 6, "mish_backward": 10,
}  # fmt: skip
"""Activations and their gradients. sigmoid and tanh are library functions (1); gelu: x/√2, erf, add, two products; with
tanh: four products, two additions, tanh, two products; softplus: exp, log1p, comparison; silu: sigmoid, product.
_prelu_kernel: both gradients; backward of silu: σ, 1-σ, x·(1-σ), +1, ·σ, ·dy; of glu: 5 for each pair of
outputs."""

_GELU = {False: (5, 11), True: (9, 18)}
"""Forward and backward, with erf and with tanh."""

_COMPLEX = {"mul": 6, "multiply": 6, "div": 11, "divide": 11, "reciprocal": 6, "abs": 4, "square": 6}
"""FLOPs on complex numbers; functions that are not listed here count double."""


def pointwise(call: OperatorCall, per_element: float) -> Cost:
    """`per_element` FLOPs for each element of the output; inputs and outputs count once.

    With a sparse operand, only its stored elements count, in dense operands too.
    """
    if any(isinstance(t, SparseSpec) for t in call.inputs):
        return _sparse_pointwise(call, per_element)
    out = call.output()
    return call.cost(per_element * _complex_factor(call, per_element) * out.numel)


def _complex_factor(call: OperatorCall, per_element: float) -> float:
    if not any(is_complex(t) for t in call.inputs):
        return 1.0
    name = call.op.split(".")[1].removesuffix("_")
    return _COMPLEX.get(name, 2 * per_element) / per_element


def _sparse_pointwise(call: OperatorCall, per_element: float) -> Cost:
    sparse = [t for t in call.inputs if isinstance(t, SparseSpec)]
    elements = sum(t.touched for t in sparse)
    read = sum(t.nbytes if isinstance(t, SparseSpec) else min(t.nbytes, elements * item_bytes(t)) for t in call.inputs)
    out = call.output()
    written = out.nbytes
    if call.in_place and not isinstance(out, SparseSpec):
        written = min(written, elements * item_bytes(out))
    return call.cost(per_element * elements, read=read, written=written)


@operator_cost("clamp", "clip")
def _clamp(call: OperatorCall) -> Cost:
    """One comparison per bound given."""
    bounds = sum(call.arg(i) is not None for i in (1, 2))
    return pointwise(call, max(1, bounds))


@operator_cost("_amp_foreach_non_finite_check_and_unscale")
def _unscale(call: OperatorCall) -> Cost:
    """Gradients, found_inf, scale: test and multiply, in place."""
    gradients = call.tensors(0)
    return call.cost(2 * sum(t.numel for t in gradients), written=sum(t.nbytes for t in gradients))


for _name in (*_ONE.split(), *SPECIAL_FUNCTIONS):
    operator_cost(_name)(partial(pointwise, per_element=1))
for _name, _flops in (_SEVERAL | _ACTIVATIONS).items():
    operator_cost(_name)(partial(pointwise, per_element=_flops))


operator_costs(
    {
        # self, other, alpha
        "add sub subtract rsub": lambda call: pointwise(call, 1 + (call.number(2, 1.0) != 1)),
        # self, p: so many functions of each element, added up
        "mvlgamma": lambda call: pointwise(call, 2 * max(1, int(call.number(1, 1)))),
        # self + value · t1 · t2
        "addcmul addcdiv": lambda call: pointwise(call, 2 + (call.number(3, 1.0) != 1)),
        # Outside of training, the input itself is returned
        "dropout feature_dropout alpha_dropout": lambda call: pointwise(call, 3) if call.flag(2) else ZERO,
        "_amp_update_scale": lambda call: call.cost(2),
        "gelu": lambda call: pointwise(call, _GELU[call.arg(1) == "tanh"][0]),
        "gelu_backward": lambda call: pointwise(call, _GELU[call.arg(2) == "tanh"][1]),
    }
)
