"""Fake tensors in compressed sparse layouts (CSR, CSC, BSR, BSC) that keep how many elements they store.

torch's own (2.13) store nothing, so products with them would count as nothing; and it cannot construct one of parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from statsnet.workloads.trees import parts_of, stored_elements

aten = torch.ops.aten

LAYOUTS = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


class NeedsValuesError(RuntimeError):
    """A step on tensors without data asks for what stands in their values."""


def is_compressed(value: Any) -> bool:
    """Whether this is a matrix that stores its elements by rows, columns or blocks of them."""
    return isinstance(value, torch.Tensor) and value.layout in LAYOUTS


def compressed_fake(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    """A fake of a real tensor."""
    compressed, plain, values = parts_of(tensor)
    return _made(mode, compressed, plain, values, tensor.shape, tensor.layout)


def with_stored_elements(
    mode: FakeTensorMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], run: Callable[[], Any]
) -> Any:
    """The result of an operator that takes or makes such tensors; `run` is what torch would do.

    An operator on one of them alone keeps what it stores. Raises NeedsValuesError where values decide it.
    """
    if func in _CONSTRUCTORS:
        compressed, plain, values, size = args[:4]
        return _made(mode, compressed, plain, values, size, kwargs["layout"])
    matrices = [arg for arg in args if is_compressed(arg)]
    if func in _PRODUCTS and matrices:
        left, right = _PRODUCTS[func](args)
        dense = [factor for factor in (left, right) if factor.layout is torch.strided]
        if len(dense) != 1:
            raise _stored_by(func)
        return dense[0].new_empty((*left.shape[:-1], *right.shape[left.dim() - 1 :]))
    if func in _TURNED and matrices[:1] and matrices[0].layout in (torch.sparse_csr, torch.sparse_csc):
        return _turned(mode, matrices[0], *_TURNED[func])
    result = run()
    if not isinstance(result, torch.Tensor) or result.layout is torch.strided:
        return result
    sparse = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.layout is not torch.strided]
    if len(sparse) != 1 or (func in _TO_BLOCKS and not _keeps_blocks(sparse[0], args[1])):
        raise _stored_by(func)
    if is_compressed(result):
        return _as_many(mode, result, sparse[0])
    return _entries(mode, result, stored_elements(sparse[0])) if matrices else result


def _stored_by(func: Any) -> NeedsValuesError:
    return NeedsValuesError(f"how many elements {func} stores stands in the values of its tensors")


def _keeps_blocks(source: torch.Tensor, blocks: Sequence[int]) -> bool:
    """Whether a matrix in blocks of this size stores as many as its source, wherever these lie."""
    in_blocks = source.layout in (torch.sparse_bsr, torch.sparse_bsc)
    return tuple(blocks) == (tuple(parts_of(source)[-1].shape[-2:]) if in_blocks else (1, 1))


def _turned(mode: FakeTensorMode, matrix: torch.Tensor, layout: torch.layout, dimension: int) -> torch.Tensor:
    """The same elements by rows in place of columns, or the other way round."""
    compressed, plain, values = parts_of(matrix)
    count = matrix.shape[dimension] + 1
    return _made(mode, compressed.new_empty((*compressed.shape[:-1], count)), plain, values, matrix.shape, layout)


def _as_many(mode: FakeTensorMode, result: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """The result with as many elements as another sparse tensor."""
    compressed, plain, values = parts_of(result)
    blocks = values.shape[1:]
    if source.layout is torch.sparse_coo:
        stored = torch.Size([source._nnz()])
    else:
        stored = parts_of(source)[1].shape
        blocks = blocks or parts_of(source)[-1].shape[1:]
    if plain.shape == stored:
        return result
    made = plain.new_empty(stored), values.new_empty(stored + blocks)
    return _made(mode, compressed, *made, result.shape, result.layout)


def _entries(mode: FakeTensorMode, result: torch.Tensor, count: int) -> torch.Tensor:
    """The result, which stores its elements one by one, with so many of them."""
    with mode:
        indices = torch.empty(result.sparse_dim(), count, dtype=torch.long)
        values = torch.empty(count, dtype=result.dtype)
        return torch.sparse_coo_tensor(indices, values, result.shape, is_coalesced=True, check_invariants=False)


def _made(
    mode: FakeTensorMode,
    compressed: torch.Tensor,
    plain: torch.Tensor,
    values: torch.Tensor,
    size: Sequence[int],
    layout: torch.layout,
) -> FakeTensor:
    """A fake with parts like these."""
    parts = [torch.empty(part.shape, dtype=part.dtype, device="meta") for part in (compressed, plain, values)]
    with torch.sparse.check_sparse_tensor_invariants(False):
        made = aten._sparse_compressed_tensor_unsafe(
            *parts, size, dtype=values.dtype, layout=layout, device=torch.device("meta")
        )
    return mode.fake_tensor_converter.from_meta_and_device(mode, made, values.device)


_CONSTRUCTORS = (
    aten.sparse_compressed_tensor.comp_plain_value_size,
    aten._sparse_compressed_tensor_unsafe.default,
)

MAKERS = frozenset({
    *_CONSTRUCTORS, aten.sparse_compressed_tensor.comp_plain_value, aten._to_sparse.default,
    aten._to_sparse.sparse_dim, aten._to_sparse_csr.default, aten._to_sparse_csc.default, aten._to_sparse_bsr.default,
    aten._to_sparse_bsc.default,
})  # fmt: skip
"""Operators that make sparse tensors of others."""

_TO_BLOCKS = (aten._to_sparse_bsr.default, aten._to_sparse_bsc.default)

_TURNED = {aten._to_sparse_csr.default: (torch.sparse_csr, -2), aten._to_sparse_csc.default: (torch.sparse_csc, -1)}
"""Changes of the layout: to which, and the dimension that is compressed then."""

_PRODUCTS: dict[Any, Callable[[Sequence[Any]], Sequence[Any]]] = {
    aten.mm.default: lambda args: args[:2],
    aten.bmm.default: lambda args: args[:2],
    aten.mv.default: lambda args: args[:2],
    aten._sparse_mm.default: lambda args: args[:2],
    aten.addmm.default: lambda args: args[1:3],
    aten.addmv.default: lambda args: args[1:3],
    aten._sparse_addmm.default: lambda args: args[1:3],
}
"""Products, whose results are dense if one factor is; and where the factors stand."""
