"""AI Matrix's recurrent layers (alibaba/ai-matrix): LSTM, GRU and vanilla, 64 inputs, up to 2560 wide.

One layer, one direction; the vanilla cell has a ReLU, as in the suite's script for cuDNN.
"""

from __future__ import annotations

from itertools import product

from torch import Tensor, nn

from reference_workloads.micro.operators import Operator, Recurrent, workload
from reference_workloads.micro.table import size

INPUTS = 64
BATCHES = (16, 32)
SEQUENCES = (32, 64)
WIDTHS = range(256, 2561, 256)

LAYERS = list(product(("lstm", "gru", "vanilla"), BATCHES, SEQUENCES, WIDTHS))
"""(cell, batch, sequence, width of the state)."""


def operator(cell: str, batch: int, sequence: int, width: int, shrink: int) -> Operator:
    inputs = size(INPUTS, shrink, 4)
    layer = Recurrent(cell, inputs, size(width, shrink, 8))
    return Operator(layer, size(sequence, shrink, 4), size(batch, shrink, 2), inputs)


def build(every: int = 23, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`every` takes each n-th layer, `shrink` divides every dimension."""
    return workload([operator(*layer, shrink) for layer in LAYERS[::every]])
