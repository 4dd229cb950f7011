"""FLOPs and bytes of operator calls, from their arguments alone: one formula per operator, in one registry.

Conventions are in docs/costs.md. `cost_of` looks a call up; `operator_cost` adds a formula; every module of
this package registers the formulas of one category when it is imported.

How a formula is written and found
    call, registry
Matrix work
    gemm, conv, attention, recurrent, linalg, quantized
One pass over the elements
    elementwise, normalization, softmax, reduction, pooling, resampling, optimizer
Moved and looked up
    arrangement, indexing, embedding, sort, collective
"""

from statsnet.profiling.costs import (  # noqa: F401  (imported for their registrations)
    arrangement,
    attention,
    collective,
    conv,
    elementwise,
    embedding,
    gemm,
    indexing,
    linalg,
    normalization,
    optimizer,
    pooling,
    quantized,
    recurrent,
    reduction,
    resampling,
    softmax,
    sort,
)
from statsnet.profiling.costs.call import Cost, MisfitError, OperatorCall, SparseSpec, item_bytes
from statsnet.profiling.costs.registry import cost_of, operator_cost, registered_operators, work_of_call

__all__ = [
    "Cost",
    "MisfitError",
    "OperatorCall",
    "SparseSpec",
    "cost_of",
    "item_bytes",
    "operator_cost",
    "registered_operators",
    "work_of_call",
]
