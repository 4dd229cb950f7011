"""Sorting and selection, in comparisons: n log2 n to sort n, log2 k per element to keep the k best."""

from __future__ import annotations

import math

from statsnet.profiling.costs.call import Cost, OperatorCall, last_dimension
from statsnet.profiling.costs.registry import operator_cost, operator_costs
from statsnet.signatures.operators import TensorSpec


def _along(x: TensorSpec, dim: float) -> int:
    """Size of a dimension; 1 for a scalar."""
    return x.shape[int(dim) % len(x.shape)] if x.shape else 1


def _sorting(x: TensorSpec, length: int) -> float:
    return x.numel * math.log2(max(2, length))


@operator_cost("sort", "argsort")
def _sort(call: OperatorCall) -> Cost:
    """self, dim, ...; the stable overloads have their flag before dim."""
    x = call.tensor(0)
    dim = call.number(2 if call.op.endswith("stable") else 1, -1)
    return call.cost(_sorting(x, _along(x, dim)))


@operator_cost("mode")
def _mode(call: OperatorCall) -> Cost:
    x = call.tensor(0)
    return call.cost(_sorting(x, _along(x, call.number(1, -1))))


@operator_cost("_unique", "_unique2", "unique_dim")
def _unique(call: OperatorCall) -> Cost:
    x = call.tensor(0)
    return call.cost(_sorting(x, x.numel))


@operator_cost(
    "unique_consecutive", "unique_dim_consecutive", "nonzero", "nonzero_static", "argwhere", "aten.where.default"
)
def _scan(call: OperatorCall) -> Cost:
    return call.cost(call.tensor(0).numel)


@operator_cost("searchsorted")
def _search(call: OperatorCall) -> Cost:
    """sorted boundaries, values: binary search for each value."""
    positions = call.output()
    return call.cost(positions.numel * math.log2(max(2, last_dimension(call.tensor(0)))))


@operator_cost("multinomial")
def _multinomial(call: OperatorCall) -> Cost:
    """The cumulative sum, and a binary search for each sample."""
    weights = call.tensor(0)
    searches = call.output().numel * math.log2(max(2, last_dimension(weights)))
    return call.cost(weights.numel + searches)


operator_costs(
    {
        "topk": lambda call: call.cost(call.tensor(0).numel * math.log2(max(2.0, call.number(1, 1)))),
        # Quickselect looks at each element about twice
        "kthvalue median nanmedian": lambda call: call.cost(2 * call.tensor(0).numel),
        # values, boundaries
        "bucketize": lambda call: call.cost(call.output().numel * math.log2(max(2, call.tensor(1).numel))),
        # Sort both, then walk along them
        "isin": lambda call: call.cost(sum(_sorting(t, t.numel) for t in call.inputs)),
    }
)
