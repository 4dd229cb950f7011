"""Collectives, as this device sees them: its own tensors read and written, one FLOP per reduced element.

What crosses the network depends on the algorithm and the number of devices, and is not counted here.
"""

from __future__ import annotations

from statsnet.profiling.costs.call import Cost, OperatorCall
from statsnet.profiling.costs.registry import operator_cost

_FUNCTIONAL = "_c10d_functional"


@operator_cost(
    f"{_FUNCTIONAL}.all_reduce",
    f"{_FUNCTIONAL}.all_reduce_coalesced",
    f"{_FUNCTIONAL}.reduce_scatter_tensor",
    f"{_FUNCTIONAL}.reduce_scatter_tensor_coalesced",
)
def _reduced(call: OperatorCall) -> Cost:
    return call.cost(sum(t.numel for t in call.inputs))


@operator_cost(
    f"{_FUNCTIONAL}.all_gather_into_tensor",
    f"{_FUNCTIONAL}.all_gather_into_tensor_coalesced",
    f"{_FUNCTIONAL}.all_to_all_single",
    f"{_FUNCTIONAL}.broadcast",
)
def _moved(call: OperatorCall) -> Cost:
    return call.cost()


@operator_cost("c10d.allreduce_", "c10d.allreduce_coalesced_", "c10d.reduce_")
def _reduced_in_place(call: OperatorCall) -> Cost:
    tensors = call.tensors(0)
    size = sum(t.nbytes for t in tensors)
    return call.cost(sum(t.numel for t in tensors), read=size, written=size)


@operator_cost("c10d.broadcast_")
def _broadcast_in_place(call: OperatorCall) -> Cost:
    size = sum(t.nbytes for t in call.tensors(0))
    return call.cost(read=size, written=size)


@operator_cost("c10d._allgather_base_", "c10d.alltoall_base_")
def _gathered_base(call: OperatorCall) -> Cost:
    """output, input."""
    return call.cost(read=call.tensor(1).nbytes, written=call.tensor(0).nbytes)


@operator_cost("c10d._reduce_scatter_base_")
def _scattered_base(call: OperatorCall) -> Cost:
    """output, input."""
    source = call.tensor(1)
    return call.cost(source.numel, read=source.nbytes, written=call.tensor(0).nbytes)
