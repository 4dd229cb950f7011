"""Indexing by tensors: the positions that an index names are read or written.

A Boolean mask names an unknown number of positions. If no result or value tells how many, all are assumed.
"""

from __future__ import annotations

import math

from statsnet.profiling.costs.call import Cost, MisfitError, OperatorCall, item_bytes
from statsnet.profiling.costs.registry import operator_cost
from statsnet.signatures.operators import TensorSpec


@operator_cost("_unsafe_masked_index_put_accumulate")
def _masked_index_put(call: OperatorCall) -> Cost:
    """self, mask, indices, values: a copy of self to which the values are added."""
    return call.cost(call.tensor(3).numel)


@operator_cost("index_put", "_unsafe_index_put", "_index_put_impl")
def _index_put(call: OperatorCall) -> Cost:
    """self, indices, values, accumulate. In place, only the named positions count; else everything is copied."""
    own, values = call.tensor(0), call.tensor(2)
    accumulate = call.flag(3)
    positions = _named_positions(own, _index_list(call), values)
    own_read = 0.0
    if not call.in_place:
        own_read = own.nbytes
    elif accumulate:
        own_read = min(positions * item_bytes(own), own.nbytes)
    written = own.nbytes if not call.in_place else min(positions * item_bytes(own), own.nbytes)
    read = own_read + sum(index.nbytes for index in call.tensors(1)) + values.nbytes
    return call.cost(positions if accumulate else 0, read=read, written=written)


def _index_list(call: OperatorCall) -> tuple[TensorSpec | None, ...]:
    indices = call.arg(1)
    if not isinstance(indices, tuple):
        raise MisfitError(f"{call.op}: argument 1 is not a list of tensors")
    return indices


def _named_positions(own: TensorSpec, indices: tuple[TensorSpec | None, ...], values: TensorSpec) -> int:
    given = [t for t in indices if t is not None]
    if any(t.dtype in ("bool", "uint8") for t in given):
        return values.numel if values.numel > 1 else own.numel
    kept = [
        size for d, size in enumerate(own.shape) if d >= len(indices) or indices[d] is None
    ]  # dimensions that no index names
    return _broadcast_numel(given) * math.prod(kept)


def _broadcast_numel(tensors: list[TensorSpec]) -> int:
    rank = max((len(t.shape) for t in tensors), default=0)
    padded = [(1,) * (rank - len(t.shape)) + t.shape for t in tensors]
    return math.prod(max(sizes) for sizes in zip(*padded, strict=True)) if padded else 1


def _overwrite(call: OperatorCall, positions: int, source_bytes: float) -> Cost:
    """Replaces `positions` elements of argument 0. In place, only those count; else all of it is copied."""
    own = call.tensor(0)
    touched = min(positions * item_bytes(own), own.nbytes)
    index = sum(t.nbytes for t in call.inputs[1:] if t.dtype in ("int64", "int32"))
    if call.in_place:
        return call.cost(read=index + source_bytes, written=touched)
    return call.cost(read=own.nbytes + index + source_bytes, written=own.nbytes)


@operator_cost("scatter")
def _scatter(call: OperatorCall) -> Cost:
    """self, dim, index, source or value: one element per index."""
    own, index = call.tensor(0), call.tensor(2)
    from_tensor = call.maybe_tensor(3) is not None
    return _overwrite(call, index.numel, index.numel * item_bytes(own) if from_tensor else 0)


@operator_cost("index_copy")
def _index_copy(call: OperatorCall) -> Cost:
    source = call.tensor(3)
    return _overwrite(call, source.numel, source.nbytes)


@operator_cost("index_fill")
def _index_fill(call: OperatorCall) -> Cost:
    """self, dim, index, value."""
    own, index = call.tensor(0), call.tensor(2)
    rank = max(1, len(own.shape))
    along = own.shape[int(call.number(1)) % rank] if own.shape else 1
    return _overwrite(call, index.numel * (own.numel // max(1, along)), 0)


@operator_cost("put")
def _put(call: OperatorCall) -> Cost:
    source = call.tensor(2)
    return _overwrite(call, source.numel, source.nbytes)


@operator_cost("masked_scatter")
def _masked_scatter(call: OperatorCall) -> Cost:
    """self, mask, source: how much of the source is used is not known; all of it is assumed."""
    return call.cost()
