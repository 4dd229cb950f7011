"""DeepBench's matrix products (baidu-research/DeepBench): 160 for training, 88 for inference.

The left operand, (m, k), is the weight, the right one, (k, n), the input. DeepBench lists products of the
backward pass among those for training; here a training step adds each row's own two.
"""

from __future__ import annotations

from torch import Tensor, nn

from reference_workloads.micro.deepbench import both_modes
from reference_workloads.micro.operators import Operator, Product
from reference_workloads.micro.table import Row, size


def operator(row: Row, shrink: int) -> Operator:
    m, n, k = (size(row[name], shrink, 4) for name in "mnk")
    shape = (n, k) if row["layout"] == "nt" else (k, n)
    return Operator(Product(m, k, row["layout"]), *shape)


def build(every: int = 41, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`every` takes each n-th row of both modes, `shrink` divides every dimension."""
    return both_modes("deepbench_gemm", operator, every, shrink)
