"""Fused optimizers, in FLOPs per parameter. Others (foreach and plain) cost the sum of their operators.

Adam 13: first moment (lerp) 3, second moment 4, √, ÷ bias correction, + ε, ÷ 1, step size and update 3.
SGD 2: step size and update. Adagrad 7. Gradients are read and not written.
"""

from __future__ import annotations

from statsnet.profiling.costs.call import Cost, OperatorCall
from statsnet.profiling.costs.registry import operator_cost
from statsnet.signatures.operators import TensorSpec

_ADAM = 13
_ADAGRAD = 7


def _bytes(tensors: tuple[TensorSpec, ...]) -> int:
    return sum(t.nbytes for t in tensors)


def _count(tensors: tuple[TensorSpec, ...]) -> int:
    return sum(t.numel for t in tensors)


@operator_cost("_fused_adam_", "_fused_adamw_")
def _adam(call: OperatorCall) -> Cost:
    """parameters, gradients, two moments, largest moments, steps, lr, betas, weight decay, eps, amsgrad, ...

    Weight decay: 2 in Adam (added to the gradient), 1 in AdamW (scales the parameter).
    """
    amsgrad = call.flag(11)
    decay = (1 if "adamw" in call.op else 2) * (call.number(9) != 0)
    scaled = call.maybe_tensor(13) is not None
    updated = sum(_bytes(call.tensors(i)) for i in (0, 2, 3)) + amsgrad * _bytes(call.tensors(4))
    read = updated + _bytes(call.tensors(1)) + _bytes(call.tensors(5))
    return call.cost(_count(call.tensors(0)) * (_ADAM + decay + amsgrad + scaled), read=read, written=updated)


@operator_cost("_fused_sgd_")
def _sgd(call: OperatorCall) -> Cost:
    """parameters, gradients, momenta, weight decay, momentum, lr, dampening, nesterov, maximize, first step.

    On the first step the momentum is the gradient: written, not read, and free.
    """
    parameters, momenta = call.tensors(0), call.tensors(2)
    has_momentum, first = call.number(4) != 0 and bool(momenta), call.flag(9)
    per_element = 2 + 2 * (call.number(3) != 0) + (call.maybe_tensor(10) is not None)
    if has_momentum:
        per_element += (0 if first else 2 + (call.number(6) != 0)) + 2 * call.flag(7)
    written = _bytes(parameters) + has_momentum * _bytes(momenta)
    read = _bytes(parameters) + _bytes(call.tensors(1)) + (has_momentum and not first) * _bytes(momenta)
    return call.cost(_count(parameters) * per_element, read=read, written=written)


@operator_cost("_fused_adagrad_")
def _adagrad(call: OperatorCall) -> Cost:
    """parameters, gradients, sums, steps, lr, lr decay, weight decay, ..."""
    per_element = _ADAGRAD + 2 * (call.number(6) != 0)
    updated = _bytes(call.tensors(0)) + _bytes(call.tensors(2))
    read = updated + _bytes(call.tensors(1)) + _bytes(call.tensors(3))
    return call.cost(_count(call.tensors(0)) * per_element, read=read, written=updated)
