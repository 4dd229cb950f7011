"""Normalisations, in FLOPs per element of the input. Work per channel or per row is left out.

Statistics: mean 1, variance 3 (subtract, square, add). Normalising: subtract and scale = 2. Affine: weight 1, bias 1.
Backward: the normalised value again 2, its two sums 1 and 2, the result 4; see each function.
"""

from __future__ import annotations

from statsnet.profiling.costs.call import Cost, OperatorCall
from statsnet.profiling.costs.registry import operator_cost, operator_costs

_STATISTICS = 4
_NORMALIZE = 2


def _affine(call: OperatorCall, *indices: int) -> int:
    return sum(call.maybe_tensor(i) is not None for i in indices)


def _batch_norm(call: OperatorCall, *, training: bool) -> Cost:
    """input, weight, bias, running_mean, running_var, ...; training also updates the running statistics."""
    per_element = (_STATISTICS if training else 0) + _NORMALIZE + _affine(call, 1, 2)
    running = sum(t.nbytes for i in (3, 4) if (t := call.maybe_tensor(i)) is not None)
    written = call.bytes_out + (running if training else 0)
    return call.cost(per_element * call.tensor(0).numel, written=written)


@operator_cost("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm", "miopen_batch_norm",
               "batch_norm", "_batch_norm_impl_index", "_native_batch_norm_legit_functional",
               "instance_norm")  # fmt: skip
def _batch_norm_by_flag(call: OperatorCall) -> Cost:
    return _batch_norm(call, training=call.flag(5))


def _batch_norm_backward(call: OperatorCall, *, training: bool, mask: tuple[bool, ...]) -> Cost:
    """In training, the input's gradient needs both sums, which are also the affine gradients."""
    wants_input, wants_weight, wants_bias = mask
    full = training and wants_input
    per_element = 0
    if full or wants_weight:
        per_element += _NORMALIZE + 2
    if full or wants_bias:
        per_element += 1
    if wants_input:
        per_element += 4 if training else 1
    return call.cost(per_element * call.tensor(1).numel)


@operator_cost("native_batch_norm_backward", "batch_norm_backward")
def _batch_norm_backward_by_flag(call: OperatorCall) -> Cost:
    return _batch_norm_backward(call, training=call.flag(7), mask=call.mask(9, 3))


@operator_cost("cudnn_batch_norm_backward", "miopen_batch_norm_backward")
def _batch_norm_backward_training(call: OperatorCall) -> Cost:
    return _batch_norm_backward(call, training=True, mask=(True, True, True))


@operator_cost("batch_norm_gather_stats", "batch_norm_gather_stats_with_counts")
def _sync_gather(call: OperatorCall) -> Cost:
    statistics = call.tensor(1)
    return call.cost(_STATISTICS * statistics.numel, read=call.bytes_in - call.tensor(0).nbytes)


@operator_cost("native_layer_norm", "layer_norm")
def _layer_norm(call: OperatorCall) -> Cost:
    per_element = _STATISTICS + _NORMALIZE + _affine(call, 2, 3)
    return call.cost(per_element * call.tensor(0).numel)


@operator_cost("native_group_norm")
def _group_norm(call: OperatorCall) -> Cost:
    return call.cost((_STATISTICS + _NORMALIZE + _affine(call, 1, 2)) * call.tensor(0).numel)


def _row_norm_backward(call: OperatorCall, *, weight: bool, mask: tuple[bool, ...]) -> Cost:
    """Layer and group norm: dy·w 1, its sum 1, its product with x̂ 2, result 4; dw 2, db 1; x̂ itself 2."""
    wants_input, wants_weight, wants_bias = mask
    per_element = _NORMALIZE if wants_input or wants_weight else 0
    per_element += (7 + weight) * wants_input + 2 * wants_weight + wants_bias
    return call.cost(per_element * call.tensor(0).numel)


@operator_cost("native_layer_norm_backward")
def _layer_norm_backward(call: OperatorCall) -> Cost:
    return _row_norm_backward(call, weight=call.maybe_tensor(5) is not None, mask=call.mask(7, 3))


@operator_cost("native_group_norm_backward")
def _group_norm_backward(call: OperatorCall) -> Cost:
    return _row_norm_backward(call, weight=call.maybe_tensor(4) is not None, mask=call.mask(9, 3))


@operator_cost("_fused_rms_norm_backward")
def _rms_norm_backward(call: OperatorCall) -> Cost:
    """x̂ 1; dy·w 1, its product with x̂ 2, result 3; dw 2."""
    wants_input, wants_weight = call.mask(5, 2)
    per_element = 1 + (5 + _affine(call, 4)) * wants_input + 2 * wants_weight
    return call.cost(per_element * call.tensor(0).numel)


@operator_cost("_weight_norm_interface", "_weight_norm", "renorm")
def _weight_norm(call: OperatorCall) -> Cost:
    """Square, add, scale."""
    return call.cost(3 * call.tensor(0).numel)


operator_costs(
    {
        "_batch_norm_with_update aten._native_batch_norm_legit.no_stats": lambda call: _batch_norm(call, training=True),
        "_native_batch_norm_legit_no_training _batch_norm_no_update": lambda call: _batch_norm(call, training=False),
        "batch_norm_stats": lambda call: call.cost(_STATISTICS * call.tensor(0).numel),
        "batch_norm_elemt": lambda call: call.cost((_NORMALIZE + _affine(call, 1, 2)) * call.tensor(0).numel),
        "batch_norm_backward_reduce": lambda call: call.cost((_NORMALIZE + 2 + 1) * call.tensor(0).numel),
        "batch_norm_backward_elemt": lambda call: call.cost((_NORMALIZE + 4) * call.tensor(0).numel),
        "group_norm": lambda call: call.cost((_STATISTICS + _NORMALIZE + _affine(call, 2, 3)) * call.tensor(0).numel),
        # Square, add, scale; weight 1
        "_fused_rms_norm rms_norm": lambda call: call.cost((3 + _affine(call, 2)) * call.tensor(0).numel),
        # Product with the direction 2, remove its share 2, scale 1
        "_weight_norm_interface_backward": lambda call: call.cost(5 * call.tensor(0).numel),
    }
)
