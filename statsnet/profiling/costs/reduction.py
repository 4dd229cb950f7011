"""Reductions, in FLOPs per element of the input (scans: of the output).

sum, maximum, product: 1; mean: 1, and one division per result; norm: multiply and add = 2; variance: 4, as in
normalisation; logsumexp: max, subtract, exp, add = 4.
"""

from __future__ import annotations

import math
from functools import partial

from statsnet.profiling.costs.call import Cost, OperatorCall, dimensions, is_complex, item_bytes
from statsnet.profiling.costs.registry import operator_cost

_PER_INPUT = {
    "sum": 1, "nansum": 2, "prod": 1, "max": 1, "min": 1, "amax": 1, "amin": 1, "argmax": 1, "argmin": 1,
    "any": 1, "all": 1, "count_nonzero": 1, "aminmax": 2, "norm": 2, "linalg_vector_norm": 2,
    "linalg_norm": 2, "var": 4, "std": 4, "var_mean": 4, "std_mean": 4, "logsumexp": 4,
    "special_logsumexp": 4, "histc": 2, "bincount": 1, "histogram": 2, "hash_tensor": 1, "equal": 1, "allclose": 4,
    "_is_all_true": 1, "_is_any_true": 1,
}  # fmt: skip

_PER_OUTPUT = {
    "cumsum": 1, "cumprod": 1, "cummax": 1, "cummin": 1, "_cummax_helper": 1, "_cummin_helper": 1,
    "logcumsumexp": 4,
}  # fmt: skip


def _reduction(call: OperatorCall, per_element: int) -> Cost:
    x = call.tensor(0)
    return call.cost(per_element * x.numel * (2 if is_complex(x) else 1))


def _scan(call: OperatorCall, per_element: int) -> Cost:
    return call.cost(per_element * call.tensor(0).numel)


for _name, _flops in _PER_INPUT.items():
    operator_cost(_name)(partial(_reduction, per_element=_flops))
for _name, _flops in _PER_OUTPUT.items():
    operator_cost(_name)(partial(_scan, per_element=_flops))


@operator_cost("mean", "nanmean")
def _mean(call: OperatorCall) -> Cost:
    return call.cost(call.tensor(0).numel + call.output().numel)


@operator_cost("trace")
def _trace(call: OperatorCall) -> Cost:
    x = call.tensor(0)
    diagonal = min(dimensions(x, 2))
    return call.cost(diagonal, read=diagonal * item_bytes(x))


@operator_cost("_cdist_forward", "_euclidean_dist", "_pdist_forward", "cdist")
def _distances(call: OperatorCall) -> Cost:
    """Each distance: subtract, square, add over the last dimension."""
    x = call.tensor(0)
    return call.cost(3 * call.output().numel * (x.shape[-1] if x.shape else 1))


@operator_cost("_cdist_backward", "_pdist_backward")
def _distances_backward(call: OperatorCall) -> Cost:
    """grad, x, ...: each distance subtracts, scales and adds over the last dimension."""
    grad, x = call.tensor(0), call.tensor(1)
    return call.cost(3 * grad.numel * (x.shape[-1] if x.shape else 1))


@operator_cost("_local_scalar_dense", "item", "is_nonzero")
def _to_host(call: OperatorCall) -> Cost:
    """One value is read by the host; there is no tensor to write."""
    size = item_bytes(call.tensor(0))
    return call.cost(read=size, written=size)


@operator_cost("_fft_r2c", "_fft_c2r", "_fft_c2c")
def _fourier(call: OperatorCall) -> Cost:
    """5 N log2 N for a complex transform of N points, half of it for a real one; other axes are batch."""
    real = next((t for t in (call.tensor(0), call.output()) if not is_complex(t)), None)
    signal = real or call.tensor(0)
    rank = max(1, len(signal.shape))
    points = math.prod(signal.shape[d % rank] for d in call.integers(1)) if signal.shape else 1
    factor = 5.0 if real is None else 2.5
    return call.cost(factor * signal.numel * math.log2(max(2, points)))
