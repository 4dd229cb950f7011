"""Operators as dense matrix products: what an array of multipliers computes when it runs them.

A convolution is the product that lowering it (im2col) gives, and keeps its window beside it. Attention is two products
for each head, a recurrent layer one product for all inputs and one for each step, a product of complex numbers four of
real ones. The multiply-adds are those of the cost formulas (statsnet/profiling/costs), to which tests compare them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from statsnet.exports.fused_layers import (
    attention,
    composite_rnn,
    cudnn_rnn,
    encoder_layer,
    gradients,
    grouped,
    linear_backward,
    matmul_backward,
    multi_head_attention,
    onednn_rnn,
    quantised_rnn,
    recurrent_cell,
    with_loss,
)
from statsnet.profiling.costs.call import (
    MisfitError,
    OperatorCall,
    SparseSpec,
    dimensions,
    is_complex,
    last_dimension,
    tokens_of,
)
from statsnet.signatures.categories import base_name
from statsnet.signatures.operators import TensorSpec
from statsnet.signatures.products import Product, Window


def products_of(op: str, args: Sequence[Any], outputs: Sequence[Any]) -> tuple[Product, ...]:
    """The products of one call, from its encoded arguments and outputs (see `signatures.operators`).

    Empty for an operator that is none, for one whose products are not known, and for one without work.
    """
    rule = _RULES.get(base_name(op).rstrip("_"))
    if rule is None and "attention" in op:
        rule = attention
    if rule is None:
        return ()
    try:
        call = OperatorCall.decode(op, args, outputs)
        made = rule(call)
    except (MisfitError, ZeroDivisionError, IndexError):
        return ()
    if any(is_complex(spec) for spec in call.inputs):
        made = [replace(p, times=4 * p.times) for p in made]
    return tuple(p for p in made if p.macs > 0)


def _gemm(call: OperatorCall) -> list[Product]:
    left, right, out = call.tensor(0), call.maybe_tensor(1), call.output()
    return [_product(left, right, out)]


def _gemm_with_bias(call: OperatorCall) -> list[Product]:
    return [_product(call.tensor(1), call.tensor(2), call.output())]


def _product(left: TensorSpec, right: TensorSpec | None, out: TensorSpec) -> Product:
    """[..., M, K] x [..., K, N]; leading axes are rows if the right side has none, else a batch. Of a nested left side,
    the rows that are there."""
    if right is not None and right.squares is not None:
        raise MisfitError("products of their own sizes")
    depth = last_dimension(left)
    columns = 1 if right is not None and len(right.shape) == 1 else max(1, out.shape[-1] if out.shape else 1)
    if left.squares is not None:
        return Product(rows=tokens_of(left), columns=columns, depth=depth)
    rows, batch = math.prod(out.shape) // columns, 1
    if right is not None and len(right.shape) > 2 and len(out.shape) > 2:
        batch = math.prod(out.shape[:-2])
        rows //= batch
    density = _density(left) * (1.0 if right is None else _density(right))
    return Product(rows=rows, columns=columns, depth=depth, batch=batch, density=density)


def _density(spec: TensorSpec) -> float:
    """Share of a matrix's elements that are stored. Of two sparse matrices the pattern is not known: a product of the
    two shares is that of elements which are spread evenly."""
    if not isinstance(spec, SparseSpec):
        return 1.0
    return (spec.entries if spec.elements is None else spec.elements) / math.prod(spec.shape)


def _sampled(call: OperatorCall) -> list[Product]:
    """pattern, left, right: a product's elements where the pattern stores some."""
    pattern, left, right = call.tensor(0), call.tensor(1), call.tensor(2)
    return [replace(_product(left, right, pattern), density=_density(pattern))]


def _sparse_backward(call: OperatorCall) -> list[Product]:
    """Sparse operand, gradient, dense operand, ..., mask: the gradients of those that are wanted."""
    left, grad = call.tensor(0), call.tensor(1)
    rows, depth = dimensions(left, 2)
    return gradients(rows, last_dimension(grad), depth, *call.mask(5, 2), density=_density(left))


def _batch_summed(call: OperatorCall) -> list[Product]:
    """`addbmm`: the products of a batch are added up, which makes one product of them."""
    batch, rows, depth = dimensions(call.tensor(1), 3)
    return [Product(rows=rows, columns=last_dimension(call.output()), depth=batch * depth)]


def _outer(call: OperatorCall) -> list[Product]:
    rows, columns = dimensions(call.output(), 2)
    return [Product(rows=rows, columns=columns, depth=1)]


@dataclass(frozen=True, slots=True)
class _Places:
    """Where a convolution's settings stand among its arguments; `flag` is where it says whether it is transposed."""

    stride: int
    padding: int
    dilation: int
    groups: int
    transposed: bool = False
    flag: int | None = None


_PLAIN, _TRANSPOSED = _Places(3, 4, 5, 6), _Places(3, 4, 7, 6, transposed=True)
_CONVOLUTIONS = {
    **dict.fromkeys(("convolution", "_convolution", "convolution_overrideable"), _Places(3, 4, 5, 8, flag=6)),
    "conv1d": _PLAIN, "conv2d": _PLAIN, "conv3d": _PLAIN, "cudnn_convolution_relu": _PLAIN,
    "conv_transpose1d": _TRANSPOSED, "conv_transpose2d": _TRANSPOSED, "conv_transpose3d": _TRANSPOSED,
    "cudnn_convolution": _Places(3, 2, 4, 5), "cudnn_convolution_transpose": _Places(4, 2, 5, 6, transposed=True),
    "mkldnn_convolution": _Places(4, 3, 5, 6), "miopen_convolution": _Places(4, 3, 5, 6),
    "miopen_depthwise_convolution": _Places(4, 3, 5, 6), "cudnn_convolution_add_relu": _Places(5, 6, 7, 8),
}  # fmt: skip


def _convolution(call: OperatorCall, places: _Places) -> list[Product]:
    transposed = places.transposed if places.flag is None else call.flag(places.flag)
    return [_of_window(_window(call, places, call.tensor(0), call.output(), transposed))]


def _axes_of_space(x: TensorSpec, weight: TensorSpec, out: TensorSpec) -> int:
    space = len(weight.shape) - 2
    if space < 1 or len(x.shape) < space + 1 or len(out.shape) < space + 1:
        raise MisfitError("a feature map and its weight do not match")
    return space


def _window(call: OperatorCall, places: _Places, x: TensorSpec, out: TensorSpec, transposed: bool) -> Window:
    weight = call.tensor(2 if "backward" in call.op else 1)
    space = _axes_of_space(x, weight, out)
    in_channels, out_channels = x.shape[-space - 1], out.shape[-space - 1]

    def per_axis(place: int) -> tuple[int, ...]:
        given = call.integers(place)
        return given if len(given) == space else given[:1] * space

    return Window(
        images=x.shape[0] if len(x.shape) == space + 2 else 1,
        groups=max(1, (out_channels if transposed else in_channels) // max(1, weight.shape[1])),
        in_channels=in_channels, out_channels=out_channels, in_size=x.shape[-space:], out_size=out.shape[-space:],
        kernel=weight.shape[2:], stride=per_axis(places.stride), padding=per_axis(places.padding),
        dilation=per_axis(places.dilation), transposed=transposed,
    )  # fmt: skip


def lowered(window: Window) -> Product:
    """A convolution as the product that an array of multipliers runs; groups are independent products."""
    g, taps = window.groups, math.prod(window.kernel)
    if window.transposed:
        rows = window.images * math.prod(window.in_size)
        return Product(rows=rows, columns=window.out_channels // g * taps, depth=window.in_channels // g, batch=g)
    rows = window.images * math.prod(window.out_size)
    return Product(rows=rows, columns=window.out_channels // g, depth=window.in_channels // g * taps, batch=g)


def _of_window(window: Window) -> Product:
    return replace(lowered(window), window=window)


def _convolution_backward(call: OperatorCall) -> list[Product]:
    """grad, x, weight, bias sizes, stride, padding, dilation, transposed, output padding, groups, mask."""
    grad, x, transposed = call.tensor(0), call.tensor(1), call.flag(7)
    forward = lowered(_window(call, _Places(4, 5, 6, 9), x, grad, transposed))
    wants_input, wants_weight, _ = call.mask(10, 3)
    return gradients(forward.rows, forward.columns, forward.depth, wants_input, wants_weight, batch=forward.batch)


def _simple_convolution(call: OperatorCall) -> list[Product]:
    """One whose settings are not kept: shapes alone give the product. A quantised weight is packed with its bias."""
    weight, x, out = call.tensors(1)[0], call.tensor(0), call.output()
    space = _axes_of_space(x, weight, out)
    groups = max(1, x.shape[-space - 1] // max(1, weight.shape[1]))
    positions = math.prod(out.shape) // out.shape[-space - 1]
    return [Product(rows=positions, columns=weight.shape[0] // groups, depth=math.prod(weight.shape[1:]), batch=groups)]


def _time_batch_channel(call: OperatorCall) -> list[Product]:
    """x [T, B, C] and weight [kernel, C, filters]."""
    kernel, channels, filters = dimensions(call.tensor(1), 3)
    return [Product(rows=call.output().numel // filters, columns=filters, depth=kernel * channels)]


_Rule = Callable[[OperatorCall], list[Product]]


def _convolution_rule(places: _Places) -> _Rule:
    def rule(call: OperatorCall) -> list[Product]:
        try:
            return _convolution(call, places)
        except MisfitError:  # a setting that was not recorded
            return _simple_convolution(call)

    return rule


QUANTISED_LINEAR = (
    "linear_relu", "linear_leaky_relu", "linear_tanh", "linear_dynamic", "linear_relu_dynamic", "linear_dynamic_fp16",
    "linear_relu_dynamic_fp16", "linear_with_input_q_dq_qweight_dq_output_fp32",
    "linear_with_input_q_dq_qweight_dq_relu_output_fp32", "qlinear_pointwise", "_weight_int8pack_mm",
    "_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu",
)  # fmt: skip
QUANTISED_CONVOLUTIONS = tuple(f"conv{axes}d{more}" for axes in (1, 2, 3) for more in ("_relu", "_dynamic"))
"""Their weights are packed: inputs and results tell what they multiply. `linear`, `conv2d` and the like are names of
floating operators, too."""

_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("mm", "bmm", "mv", "linalg_matmul", "dot", "vdot", "matmul", "mkldnn_linear", "_int_mm",
                     "_scaled_mm", "_scaled_mm_v2", "linear", "_sparse_mm", "_sparse_mm_reduce_impl",
                     "_sparse_sparse_matmul", "smm", "hspmm", *QUANTISED_LINEAR), _gemm),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "_addmm_activation", "_sparse_addmm"), _gemm_with_bias),
    "addbmm": _batch_summed, "addr": _outer, "sparse_sampled_addmm": _sampled,
    "_sparse_mm_reduce_impl_backward": _sparse_backward, "matmul_backward": matmul_backward,
    "_linear_cross_entropy_batch_chunked": with_loss, "_linear_cross_entropy_batch_chunked_no_reduction": with_loss,
    "_native_multi_head_attention": multi_head_attention, "_transformer_encoder_layer_fwd": encoder_layer,
    "_grouped_mm": grouped, "_scaled_grouped_mm": grouped, "linear_backward": linear_backward,
    **{name: _convolution_rule(places) for name, places in _CONVOLUTIONS.items()},
    **dict.fromkeys(("thnn_conv2d", "_slow_conv2d_forward", "slow_conv3d", "slow_conv3d_forward", "slow_conv_dilated2d",
                     "slow_conv_dilated3d", "_conv_depthwise2d", "conv_depthwise3d", "deform_conv2d",
                     *QUANTISED_CONVOLUTIONS), _simple_convolution),
    "conv_tbc": _time_batch_channel,
    "convolution_backward": _convolution_backward,
    "quantized_lstm": quantised_rnn, "quantized_gru": quantised_rnn,
    "mkldnn_rnn_layer": onednn_rnn, "mkldnn_rnn_layer_backward": onednn_rnn,
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), composite_rnn),
    "_cudnn_rnn": cudnn_rnn, "_cudnn_rnn_backward": cudnn_rnn,
    **dict.fromkeys(("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"), recurrent_cell),
}  # fmt: skip
