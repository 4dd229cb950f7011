"""AI Matrix's matrix products (alibaba/ai-matrix): four cubes, then every m = n with every k.

AI Matrix runs them in half, mixed and single precision, which is the dtype asked for. Its INT8 products are
left out.
"""

from __future__ import annotations

from itertools import product

from torch import Tensor, nn

from reference_workloads.micro.operators import Operator, Product, workload
from reference_workloads.micro.table import size

CUBES = (512, 1024, 5120, 10240)
K = (1024, 5120, 9216, 13312, 17408)
MN = (1024, 5120, 9216, 13312, 17408, 21504)

PRODUCTS = [*zip(CUBES, CUBES, strict=True), *product(K, MN)]
"""(k, m = n)."""


def build(every: int = 28, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`every` takes each n-th product, `shrink` divides every dimension."""
    chosen = [(size(k, shrink, 4), size(mn, shrink, 4)) for k, mn in PRODUCTS[::every]]
    return workload([Operator(Product(mn, k), k, mn) for k, mn in chosen])
