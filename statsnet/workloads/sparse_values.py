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
    size, block_rows = (rows, columns), rows // max(1, high)
    places = torch.randint(columns // max(1, wide), (count,))
    values = torch.randn(count, max(1, high), max(1, wide)).to(dtype)
    if high == 0:
        places = torch.stack([torch.arange(count) * rows // count, places])
        return torch.sparse_coo_tensor(places, values.flatten(), size, check_invariants=False, is_coalesced=True)
    starts = torch.arange(block_rows + 1) * count // block_rows
    if high == wide == 1:
        return torch.sparse_csr_tensor(starts, places, values.flatten(), size, check_invariants=False)
    return torch.sparse_bsr_tensor(starts, places, values, size, check_invariants=False)


def sparse_columns(
    count: int, high: int, wide: int, rows: int, columns: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """The same, column by column."""
    listed = high == 0
    made = sparse_rows(count, wide, high, *((rows, columns) if listed else (columns, rows)), dtype=dtype)
    return made if listed else made.t()


SPARSE_BY = {function.__name__: function for function in (sparse_rows, sparse_columns)}


def sparse_maker(argument: str) -> Callable[..., Tensor]:
    """What makes the sparse matrix that is an operator's argument of this name."""
    return sparse_columns if argument == BY_COLUMNS else sparse_rows
