"""Gathers and scatters of rows: the rows touched count, not the table.

As many rows are read as there are indices, but never more than the table has. Within that bound, repeated indices
count again: which ones repeat depends on values. A signature's access skew says how often they do.
"""

from __future__ import annotations

import math

from statsnet.profiling.costs.call import (
    Cost,
    OperatorCall,
    SparseSpec,
    first_dimension,
    item_bytes,
    last_dimension,
)
from statsnet.profiling.costs.registry import operator_cost
from statsnet.signatures.operators import TensorSpec

_MODE_MEAN = 1


def _rows_bytes(table: TensorSpec, rows: int) -> int:
    """Bytes of `rows` rows along the first dimension, at most the whole table."""
    return min(rows, first_dimension(table)) * math.prod(table.shape[1:]) * item_bytes(table)


def _optional_bytes(call: OperatorCall, *indices: int) -> int:
    return sum(t.nbytes for i in indices if (t := call.maybe_tensor(i)) is not None)


@operator_cost("embedding")
def _embedding(call: OperatorCall) -> Cost:
    indices = call.tensor(1)
    return call.cost(read=_rows_bytes(call.tensor(0), indices.numel) + indices.nbytes)


@operator_cost("embedding_dense_backward", "embedding_sparse_backward", "embedding_backward")
def _embedding_backward(call: OperatorCall) -> Cost:
    """Dense: one addition per element of the gradient, and a table of zeros is written."""
    flops = 0 if isinstance(call.output(), SparseSpec) else call.tensor(0).numel
    return call.cost(flops)


@operator_cost("embedding_renorm")
def _embedding_renorm(call: OperatorCall) -> Cost:
    """Rows whose norm is too large are scaled: square, add, multiply."""
    table, indices = call.tensor(0), call.tensor(1)
    touched = _rows_bytes(table, indices.numel)
    return call.cost(3 * touched / item_bytes(table), read=touched + indices.nbytes, written=touched)


@operator_cost("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag")
def _bag(call: OperatorCall) -> Cost:
    """weight, indices, offsets, scale_grad_by_freq, mode (sum, mean, max), sparse, per_sample_weights, ..."""
    table, indices, out = call.tensor(0), call.tensor(1), call.output()
    gathered = indices.numel * last_dimension(table)
    flops = gathered * (2 if call.maybe_tensor(6) is not None else 1)
    if call.number(4) == _MODE_MEAN:
        flops += out.numel
    return call.cost(flops, read=_rows_bytes(table, indices.numel) + _optional_bytes(call, 1, 2, 6))


def _bag_backward(call: OperatorCall, *, mode: int, sample_weights: int) -> Cost:
    """Dense gradients are added up; a scaled gradient (mean, weights) costs one more FLOP per element."""
    gathered = call.tensor(1).numel * last_dimension(call.tensor(0))
    scaled = call.number(mode) == _MODE_MEAN or call.maybe_tensor(sample_weights) is not None
    added = not isinstance(call.output(), SparseSpec)
    return call.cost(gathered * (scaled + added))


@operator_cost("_embedding_bag_backward")
def _bag_backward_any(call: OperatorCall) -> Cost:
    return _bag_backward(call, mode=8, sample_weights=10)


@operator_cost("_embedding_bag_dense_backward", "_embedding_bag_sparse_backward")
def _bag_backward_one(call: OperatorCall) -> Cost:
    return _bag_backward(call, mode=7, sample_weights=8)


@operator_cost("_embedding_bag_per_sample_weights_backward")
def _bag_weights_backward(call: OperatorCall) -> Cost:
    """For each index, the dot product of its row and its bag's gradient."""
    table, indices = call.tensor(1), call.tensor(2)
    read = call.tensor(0).nbytes + _rows_bytes(table, indices.numel) + _optional_bytes(call, 2, 3, 4)
    return call.cost(2 * indices.numel * last_dimension(table), read=read)


@operator_cost("index_select", "gather", "take", "take_along_dim", "index", "_unsafe_index", "_unsafe_masked_index")
def _gather(call: OperatorCall) -> Cost:
    """As many elements as come out, at most the whole source, and the indices (and a mask)."""
    source = call.tensor(0)
    gathered = min(call.output().numel * item_bytes(source), source.nbytes)
    return call.cost(read=gathered + call.bytes_in - source.nbytes)


def _scatter_reduce(call: OperatorCall, source: TensorSpec, flops: float) -> Cost:
    """In place, only the touched elements of the destination are read and written; else all of it."""
    own = call.tensor(0)
    touched = min(source.numel * item_bytes(own), own.nbytes) if call.in_place else own.nbytes
    return call.cost(flops, read=call.bytes_in - own.nbytes + touched, written=touched)


@operator_cost("index_add")
def _index_add(call: OperatorCall) -> Cost:
    source = call.tensor(3)
    scaled = call.number(4, 1.0) != 1
    return _scatter_reduce(call, source, source.numel * (1 + scaled))


@operator_cost("index_reduce")
def _index_reduce(call: OperatorCall) -> Cost:
    return _scatter_reduce(call, call.tensor(3), call.tensor(3).numel)


@operator_cost("scatter_add", "scatter_reduce")
def _scatter_add(call: OperatorCall) -> Cost:
    index = call.tensor(2)
    return _scatter_reduce(call, index, index.numel)


@operator_cost("segment_reduce")
def _segment_reduce(call: OperatorCall) -> Cost:
    return call.cost(call.tensor(0).numel)


@operator_cost("_segment_reduce_backward")
def _segment_reduce_backward(call: OperatorCall) -> Cost:
    return call.cost(call.output().numel)


@operator_cost("sparse_mask")
def _sparse_mask(call: OperatorCall) -> Cost:
    """The rows of a dense tensor that are present in a sparse one."""
    dense, mask = call.tensor(0), call.tensor(1)
    rows = mask.entries if isinstance(mask, SparseSpec) else first_dimension(mask)
    return call.cost(read=_rows_bytes(dense, rows) + mask.nbytes)


@operator_cost("_coalesce")
def _coalesce(call: OperatorCall) -> Cost:
    """Equal rows are added: n log2 n comparisons to sort n indices, one addition per element."""
    sparse = call.tensor(0)
    entries = sparse.entries if isinstance(sparse, SparseSpec) else first_dimension(sparse)
    return call.cost(sparse.touched + entries * math.log2(max(2, entries)))
