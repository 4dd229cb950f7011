"""DeepBench's products of a pruned and a dense matrix (baidu-research/DeepBench): 32, all for inference.

Every row of the pruned weight, (m, k), keeps the same number of random entries, one in each of as many equal
stretches (in DeepBench they lie anywhere). The weight is fixed: both modes run all rows, and in training the
dense operand, (k, n), gets the gradient, so it is the parameter. The m of 7860 beside 7680 is DeepBench's.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.micro.table import Row, rows, size


class SparseProduct(nn.Module):
    """The pruned matrix is in COO form, since torch calls its CSR a beta; sorted, no entry twice."""

    indices: Tensor
    values: Tensor

    def __init__(self, m: int, n: int, k: int, sparsity: float) -> None:
        super().__init__()
        self.size = (m, k)
        kept = max(1, round(k * (1 - sparsity)))
        columns = torch.arange(kept) * k // kept + torch.randint(k // kept, (m, kept))
        lines = torch.arange(m)[:, None].expand(m, kept)
        self.register_buffer("indices", torch.stack([lines, columns]).flatten(1), persistent=False)
        self.register_buffer("values", torch.randn(m * kept) * kept**-0.5, persistent=False)
        self.dense = nn.Parameter(torch.randn(k, n))

    def forward(self) -> Tensor:
        # Made here from plain buffers: sparse ones are hard to move between devices and to count.
        matrix = torch.sparse_coo_tensor(
            self.indices, self.values, self.size, check_invariants=False, is_coalesced=True
        )
        return torch.sparse.mm(matrix, self.dense)


class SparseProducts(nn.Module):
    def __init__(self, products: list[SparseProduct]) -> None:
        super().__init__()
        self.products = nn.ModuleList(products)

    def forward(self) -> list[Tensor]:
        return [product() for product in self.products]


def product(row: Row, shrink: int) -> SparseProduct:
    m, n, k = (size(row[name], shrink, 4) for name in "mnk")
    return SparseProduct(m, n, k, float(row["sparsity"]))


def build(every: int = 15, shrink: int = 1) -> tuple[nn.Module, tuple[()]]:
    """`every` takes each n-th row, `shrink` divides every dimension."""
    return SparseProducts([product(row, shrink) for row in rows("deepbench_sparse", every)]), ()
