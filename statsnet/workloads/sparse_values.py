"""Sparse matrices of random values that store as much as asked (signatures/sparse.py). The source of these functions is
pasted into networks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from statsnet.signatures.sparse import BY_COLUMNS


def sparse_rows(
    count: int, high: int, wide: int, rows: int, columns: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """A matrix of `count` blocks of `high` × `wide` elements, as many in each row of blocks, at random columns (BSR).
    If these are 1, it lists elements row by row (CSR); if they are 0, each with its row and column (COO)."""
    block_rows, block_columns = rows // max(1, high), columns // max(1, wide)
    columns_of, values = torch.randint(block_columns, (count,)), torch.randn(count, high or 1, wide or 1).to(dtype)
    if high == 0:
        places = torch.stack([torch.arange(count) * rows // count, columns_of])
        return torch.sparse_coo_tensor(
            places, values.flatten(), (rows, columns), is_coalesced=True, check_invariants=False
        )
    starts = torch.arange(block_rows + 1) * count // block_rows
    make, values = (
        (torch.sparse_csr_tensor, values.flatten()) if high == wide == 1 else (torch.sparse_bsr_tensor, values)
    )
    return make(starts, columns_of, values, (rows, columns), check_invariants=False)


def sparse_columns(
    count: int, high: int, wide: int, rows: int, columns: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """The same, column by column."""
    return sparse_rows(count, wide, high, columns, rows, dtype).t()


SPARSE_BY = {function.__name__: function for function in (sparse_rows, sparse_columns)}


def sparse_maker(argument: str) -> Callable[..., Tensor]:
    """What makes the sparse matrix that is an operator's argument of this name."""
    return sparse_columns if argument == BY_COLUMNS else sparse_rows
