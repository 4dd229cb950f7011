"""What a sparse matrix stores, as its encoding tells (operators.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BY_COLUMNS = "mat2"
"""An argument of this name is taken to be stored by columns: mostly it is a layer's transposed weight."""


@dataclass(frozen=True, slots=True)
class Stored:
    """`count` blocks of `high` × `wide` elements each. A matrix that lists the row and column of each element (COO) has
    `high` and `wide` 0; one that lists elements row by row (CSR) or column by column (CSC), 1."""

    count: int
    high: int
    wide: int

    @property
    def elements(self) -> int:
        return self.count * max(1, self.high * self.wide)

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether so many such blocks can stand in a matrix of this shape."""
        whole = all(isinstance(n, int) and n >= 0 for n in (self.count, self.high, self.wide))
        if not whole or len(shape) != 2 or (self.high == 0) != (self.wide == 0):
            return False
        high, wide = max(1, self.high), max(1, self.wide)
        fits = shape[0] % high == 0 and shape[1] % wide == 0
        return fits and 0 < self.count <= (shape[0] // high) * (shape[1] // wide)


def is_sparse(encoded: dict[str, Any]) -> bool:
    """Whether an encoded tensor is sparse. A nested one stores all of its elements."""
    stores_a_part = encoded.get("sparse") is not None or encoded.get("elements") is not None
    return stores_a_part and encoded.get("squares") is None


def stored_of(encoded: dict[str, Any], argument: str) -> Stored | None:
    """What the sparse matrix stores that is an operator's argument of this name; None for a batch of matrices, for rows
    of a table, and for what does not fit together. The bytes of the indices tell how it is stored, and of blocks, how
    high these are."""
    shape, count = tuple(encoded["shape"]), encoded.get("sparse")
    elements, index_bytes = encoded.get("elements"), encoded.get("index_bytes", 0)
    if not count or elements is None or len(shape) != 2:
        return None
    if elements == count:
        form = 0 if index_bytes == 2 * 8 * count else 1
        found = Stored(count, form, form)
        return found if found.fits(shape) else None
    lengths = shape[::-1] if argument == BY_COLUMNS else shape
    for size in (8, 4):
        blocks = _blocks(lengths, count, elements, index_bytes // size - count - 1)
        if blocks is not None and blocks.fits(lengths):
            return Stored(count, blocks.wide, blocks.high) if argument == BY_COLUMNS else blocks
    return None


def _blocks(shape: tuple[int, ...], count: int, elements: int, block_rows: int) -> Stored | None:
    if block_rows <= 0 or shape[0] % block_rows or elements % (count * (shape[0] // block_rows)):
        return None
    high = shape[0] // block_rows
    return Stored(count, high, elements // (count * high))
