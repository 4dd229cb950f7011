"""Softmax and the losses behind it, in FLOPs per element of the input; of a sparse one, per stored element.

softmax: max, subtract, exp, add, divide = 5; log-softmax: max, subtract, exp, add, subtract = 5;
both backward: multiply (or exp), add, multiply, subtract = 4.
"""

from __future__ import annotations

from functools import partial

from statsnet.profiling.costs.call import Cost, OperatorCall, SparseSpec, is_complex, item_bytes
from statsnet.profiling.costs.registry import operator_cost
from statsnet.signatures.operators import TensorSpec

_FORWARD = 5
_BACKWARD = 4


def _elements(tensor: TensorSpec) -> int:
    """Those that are computed on: all of an expanded tensor, as the gradient behind a sum is."""
    return tensor.touched if isinstance(tensor, SparseSpec) else tensor.numel


@operator_cost("_softmax", "_log_softmax", "_safe_softmax", "_masked_softmax", "softmax", "log_softmax",
               "special_softmax", "special_log_softmax", "_sparse_softmax", "_sparse_log_softmax")  # fmt: skip
def _softmax(call: OperatorCall) -> Cost:
    return call.cost(_FORWARD * _elements(call.tensor(0)))


@operator_cost("_softmax_backward_data", "_log_softmax_backward_data", "_masked_softmax_backward",
               "_sparse_softmax_backward_data", "_sparse_log_softmax_backward_data")  # fmt: skip
def _softmax_backward(call: OperatorCall) -> Cost:
    return call.cost(_BACKWARD * _elements(call.tensor(0)))


def _picked_bytes(call: OperatorCall) -> int:
    """One log-probability per target, the targets, and a class weight per target."""
    scores, target, weight = call.tensor(0), call.tensor(1), call.maybe_tensor(2)
    classes = min(target.numel, weight.numel) * item_bytes(weight) if weight is not None else 0
    return target.numel * item_bytes(scores) + target.nbytes + classes


@operator_cost("nll_loss_forward", "nll_loss2d_forward", "nll_loss", "nll_loss2d", "nll_loss_nd")
def _nll_loss(call: OperatorCall) -> Cost:
    """scores, target, weight, reduction, ...: one addition per target, and one product if it is weighted."""
    weighted = call.maybe_tensor(2) is not None
    return call.cost(call.tensor(1).numel * (1 + weighted), read=_picked_bytes(call))


@operator_cost("nll_loss_backward", "nll_loss2d_backward")
def _nll_loss_backward(call: OperatorCall) -> Cost:
    """grad, scores (for their shape), target, weight, ...: zeros, and one value per target."""
    return call.cost(call.tensor(2).numel, read=call.bytes_in - call.tensor(1).nbytes)


@operator_cost("cross_entropy_loss")
def _cross_entropy(call: OperatorCall) -> Cost:
    return call.cost(_FORWARD * call.tensor(0).numel + call.tensor(1).numel)


_LOSSES = {
    "mse_loss": 2, "l1_loss": 2, "smooth_l1_loss": 6, "huber_loss": 6, "binary_cross_entropy": 8,
    "binary_cross_entropy_with_logits": 8, "soft_margin_loss": 4, "multi_margin_loss": 3, "kl_div": 4,
    "dist": 2, "pairwise_distance": 3, "cosine_similarity": 5,
}  # fmt: skip
"""FLOPs per element, without the sum."""

_LOSSES_BACKWARD = {
    "mse_loss_backward": 3, "smooth_l1_loss_backward": 5, "huber_loss_backward": 5,
    "binary_cross_entropy_backward": 6, "soft_margin_loss_backward": 7, "multi_margin_loss_backward": 3,
}  # fmt: skip


def _loss(call: OperatorCall, per_element: int) -> Cost:
    """Reduced losses add one FLOP per element."""
    elements = call.tensor(0).numel
    reduced = call.output().numel < elements
    return call.cost((per_element + reduced) * elements * (2 if is_complex(call.tensor(0)) else 1))


def _loss_backward(call: OperatorCall, per_element: int) -> Cost:
    return call.cost(per_element * call.output().numel)


for _name, _flops in _LOSSES.items():
    operator_cost(_name)(partial(_loss, per_element=_flops))
for _name, _flops in _LOSSES_BACKWARD.items():
    operator_cost(_name)(partial(_loss_backward, per_element=_flops))


_CTC_STATE = 12
"""Three predecessors of a state in log space: max 2, subtract 3, exp 3, add 2, log 1, the emission 1."""


@operator_cost("_ctc_loss")
def _ctc(call: OperatorCall) -> Cost:
    """The second output holds one value per sample, step and state (2 · labels + 1)."""
    return call.cost(_CTC_STATE * call.output(1).numel)


@operator_cost("_ctc_loss_backward")
def _ctc_backward(call: OperatorCall) -> Cost:
    """The same recursion backwards, 4 per state to add it up, and 4 per class to finish."""
    states = call.tensor(6).numel
    return call.cost((_CTC_STATE + 4) * states + 4 * call.output().numel)
