"""DeepBench's matrix products, convolutions and recurrent layers (baidu-research/DeepBench), rows by mode: for
inference its set for servers, then that for devices.

Matrix products: 160 for training, 88 for inference. The left operand, (m, k), is the weight, the right one, (k, n), the
input. DeepBench lists products of the backward pass among those for training; here a training step adds each row's own
two. Convolutions: 94 and 124, NCHW, no bias. They come from speech, face recognition, OCR and image classification;
spectrograms are wider than high. Recurrent layers: 53 and 72; one layer, one direction, biases, inputs as wide as the
state; the vanilla cell has a ReLU. DeepBench's code for cuDNN skips the product of weights and inputs, which torch's
layers always compute. On a CPU torch runs a vanilla cell or a GRU as several operators for each time step.

`every` takes each n-th row of both modes, `shrink` divides every dimension but kernels, padding and strides.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from reference_workloads.micro.operators import Operator, Product, Recurrent, workload
from reference_workloads.micro.table import Row, rows, size

TRAINING = ("training",)
INFERENCE = ("server", "device")


def gemm(every: int = 41, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return both_modes("deepbench_gemm", product, every, shrink)


def conv(every: int = 9, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return both_modes("deepbench_conv", convolution, every, shrink)


def rnn(every: int = 50, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return both_modes("deepbench_rnn", recurrent, every, shrink)


def both_modes(
    table: str, operator: Callable[[Row, int], Operator], every: int, shrink: int
) -> tuple[nn.Module, Tensor]:
    """Each `every`-th row of a mode's sets, made into an operator by `operator(row, shrink)`."""
    training, inference = (
        [operator(row, shrink) for row in rows(table, every, sets)] for sets in (TRAINING, INFERENCE)
    )
    return workload(training, inference)


def product(row: Row, shrink: int) -> Operator:
    m, n, k = (size(row[name], shrink, 4) for name in "mnk")
    shape = (n, k) if row["layout"] == "nt" else (k, n)
    return Operator(Product(m, k, row["layout"]), *shape)


def convolution(row: Row, shrink: int) -> Operator:
    batch = size(row["batch"], shrink)
    inputs, outputs = (size(row[name], shrink, 4) for name in ("in_channels", "out_channels"))
    height, width = (size(row[name], shrink, 8) for name in ("height", "width"))
    kernel, pad, stride = ((int(row[f"{name}_h"]), int(row[f"{name}_w"])) for name in ("kernel", "pad", "stride"))
    layer = nn.Conv2d(inputs, outputs, kernel, stride, pad, bias=False)
    return Operator(layer, batch, inputs, height, width)


def recurrent(row: Row, shrink: int) -> Operator:
    hidden = size(row["hidden_units"], shrink, 8)
    batch, steps = size(row["batch"], shrink, 2), size(row["timesteps"], shrink, 4)
    return Operator(Recurrent(row["cell"], hidden, hidden), steps, batch, hidden)
