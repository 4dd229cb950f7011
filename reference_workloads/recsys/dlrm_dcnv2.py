"""DLRM-DCNv2 on multi-hot Criteo 1TB, MLPerf's sizes: 26 tables of width 128, 26.1 G parameters, 105 GB.

DLRM (arXiv 1906.00091) with the low-rank cross layers of DCN v2 (arXiv 2008.13535) in place of dot products.
The whole tables are for fake tensors: the preset `small` cuts them to 100,000 rows, 0.5 GB in all.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.recsys.dlrm import mlp, table
from reference_workloads.synthetic import zipf_ids

ROWS = (
    40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10,
    2209, 11938, 155, 4, 976, 14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36,
)  # fmt: skip
"""Rows of the 26 tables, at most 40 M each."""

HOT = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)
"""Indices that a sample has of each feature."""

DENSE, WIDTH = 13, 128
CROSS_LAYERS = 3
TOP = (1024, 1024, 512, 256, 1)


class Cross(nn.Module):
    """first * (W V x + b) + x, where V reduces x to `rank` numbers."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, width)
        nn.init.xavier_normal_(self.down.weight)
        nn.init.xavier_normal_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, first: Tensor, x: Tensor) -> Tensor:
        return first * self.up(self.down(x)) + x


class DLRMDCNv2(nn.Module):
    def __init__(self, rows: tuple[int, ...], width: int = WIDTH, sparse: bool = True) -> None:
        super().__init__()
        tables = [nn.EmbeddingBag(n, width, mode="sum", sparse=sparse, _weight=table(n, width)) for n in rows]
        self.tables = nn.ModuleList(tables)
        self.bottom = mlp((DENSE, 512, 256, width), nn.ReLU())
        features = (len(rows) + 1) * width
        self.crosses = nn.ModuleList(Cross(features, 4 * width) for _ in range(CROSS_LAYERS))
        self.top = mlp((features, *TOP), nn.Identity())

    def forward(self, dense: Tensor, indices: tuple[Tensor, ...]) -> Tensor:
        """dense: (batch, 13); indices: of each feature (batch, its number of indices). Logits, (batch, 1)."""
        bags = [table(index) for table, index in zip(self.tables, indices, strict=True)]
        first = x = torch.cat([self.bottom(dense), *bags], dim=1)
        for cross in self.crosses:
            x = cross(first, x)
        return self.top(x)


def multi_hot(rows: int, hot: int, batch: int) -> Tensor:
    """Indices, (batch, hot). As in MLPerf's data, a drawn value fixes the others, spread over the table."""
    drawn = zipf_ids(rows, (batch, 1))
    others = (drawn * 2_654_435_761 + torch.arange(1, hot) * 40_503_001) % rows
    return torch.cat([drawn, others], dim=1)


def build(
    batch: int = 512, max_rows: int = 100_000, width: int = WIDTH, sparse: bool = True, batches: int = 4
) -> dict[str, object]:
    """`max_rows` cuts the tables, `batches` is the number of batches of indices that steps go through."""
    rows = tuple(min(n, max_rows) for n in ROWS)
    inputs: list[object] = []
    for _ in range(batches):
        dense = torch.log1p(torch.empty(batch, DENSE).exponential_(0.05))
        indices = tuple(multi_hot(n, hot, batch) for n, hot in zip(rows, HOT, strict=True))
        inputs.append(((dense, indices), {}))
    return {"model": DLRMDCNv2(rows, width, sparse), "inputs": inputs}
