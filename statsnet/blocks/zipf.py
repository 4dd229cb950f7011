"""Index tensors that follow a Zipf law, for embeddings. Pasted into networks that read indices."""

from __future__ import annotations

import torch
from torch import Tensor


def zipf_indices(
    count: int, rows: int, exponent: float, generator: torch.Generator | None, spread: int = 2654435761
) -> Tensor:
    """`count` row numbers below `rows`; the k-th most frequent has a share near k ** -exponent."""
    uniform = torch.rand(count, generator=generator, dtype=torch.float64)
    if abs(exponent - 1) < 1e-3:
        rank = (rows + 1) ** uniform
    else:  # the inverse of the continuous law's distribution function
        power = 1 - exponent
        rank = (uniform * ((rows + 1) ** power - 1) + 1) ** (1 / power)
    # The default spread is a prime above every table's length: no two ranks share a row.
    return (rank.long() - 1).clamp(0, rows - 1) * spread % rows
