"""DeepBench's recurrent layers (baidu-research/DeepBench): 53 for training, 72 for inference.

One layer, one direction, biases, inputs as wide as the state; the vanilla cell has a ReLU. DeepBench's code
for cuDNN skips the product of weights and inputs, which torch's layers always compute. On a CPU torch runs a
vanilla cell or a GRU as several operators for each time step.
"""

from __future__ import annotations

from torch import Tensor, nn

from reference_workloads.micro.deepbench import both_modes
from reference_workloads.micro.operators import Operator, Recurrent
from reference_workloads.micro.table import Row, size


def operator(row: Row, shrink: int) -> Operator:
    hidden = size(row["hidden_units"], shrink, 8)
    batch, steps = size(row["batch"], shrink, 2), size(row["timesteps"], shrink, 4)
    return Operator(Recurrent(row["cell"], hidden, hidden), steps, batch, hidden)


def build(every: int = 50, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`every` takes each n-th row of both modes, `shrink` divides every dimension."""
    return both_modes("deepbench_rnn", operator, every, shrink)
