"""Collectives, as this device sees them: its own tensors read and written, one FLOP per reduced element.

What crosses the network depends on the algorithm and the number of devices, and is not counted here.
"""

from __future__ import annotations

from statsnet.profiling.costs.call import Cost, OperatorCall
from statsnet.profiling.costs.registry import operator_cost, operator_costs

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
    "_dtensor.shard_dim_alltoall",
)
def _moved(call: OperatorCall) -> Cost:
    return call.cost()


@operator_cost("c10d.allreduce_", "c10d.allreduce_coalesced_", "c10d.reduce_")
def _reduced_in_place(call: OperatorCall) -> Cost:
    size = _size(call, 0)
    return call.cost(sum(t.numel for t in call.tensors(0)), read=size, written=size)


@operator_cost("c10d.broadcast_", "fsdp.all_gather_copy_in", "fsdp.split_with_sizes_copy")
def _moved_as_it_is(call: OperatorCall) -> Cost:
    """What comes first is read, and as much is written: by others, into what is gathered, or out of that."""
    return call.cost(read=_size(call, 0), written=_size(call, 0))


@operator_cost(
    "c10d._allgather_base_",
    "c10d.allgather_",
    "c10d.allgather_coalesced_",
    "c10d.allgather_into_tensor_coalesced_",
    "c10d.alltoall_base_",
    "c10d.alltoall_",
    "c10d.gather_",
    "c10d.scatter_",
)
def _moved_into(call: OperatorCall) -> Cost:
    """output, input; lists of both in some."""
    return call.cost(read=_size(call, 1), written=_size(call, 0))


@operator_cost("c10d._reduce_scatter_base_", "c10d.reduce_scatter_", "c10d.reduce_scatter_tensor_coalesced_")
def _scattered_into(call: OperatorCall) -> Cost:
    """output, input; lists of both in some."""
    return call.cost(sum(t.numel for t in call.tensors(1)), read=_size(call, 1), written=_size(call, 0))


def _size(call: OperatorCall, index: int) -> int:
    return sum(t.nbytes for t in call.tensors(index))


operator_costs(
    {
        "c10d.send": lambda call: call.cost(read=_size(call, 0), written=0),
        "c10d.recv_ c10d.recv_any_source_": lambda call: call.cost(read=0, written=_size(call, 0)),
        "c10d.barrier c10d.monitored_barrier_": lambda call: call.cost(read=0, written=0),
        # Gradients, an axis, the number of chunks, and what is scattered of them
        "fsdp.chunk_cat": lambda call: call.cost(read=_size(call, 0), written=_size(call, 3)),
    }
)
