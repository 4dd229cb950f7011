"""AI Matrix's single operators (alibaba/ai-matrix).

Layers of CNNs: 315 rows of AlexNet, GoogLeNet, VGG, ResNet and DenseNet. No padding and no biases, as in its script. It
times max and average pooling on each row for pooling, and four functions on each row for activations; so does this. The
table's NHWC sizes are NCHW tensors here. Its batch normalisation is given means and variances; here it is torch's,
which computes them in training.
Matrix products: four cubes, then every m = n with every k. AI Matrix runs them in half, mixed and single precision,
which is the dtype asked for. Its INT8 products are left out.
Recurrent layers: LSTM, GRU and vanilla, 64 inputs, up to 2560 wide; one layer, one direction; the vanilla cell has a
ReLU, as in the suite's script for cuDNN.

`every` takes each n-th row, `shrink` divides every dimension but kernels and strides.
"""

from __future__ import annotations

import math
from itertools import product

from torch import Tensor, nn

from reference_workloads.micro.operators import Operator, Product, Recurrent, workload
from reference_workloads.micro.table import Row, rows, size

CUBES = (512, 1024, 5120, 10240)
K = (1024, 5120, 9216, 13312, 17408)
MN = (1024, 5120, 9216, 13312, 17408, 21504)
PRODUCTS = [*zip(CUBES, CUBES, strict=True), *product(K, MN)]
"""(k, m = n)."""

INPUTS = 64
BATCHES = (16, 32)
SEQUENCES = (32, 64)
WIDTHS = range(256, 2561, 256)
RECURRENT = list(product(("lstm", "gru", "vanilla"), BATCHES, SEQUENCES, WIDTHS))
"""(cell, batch, sequence, width of the state)."""


def gemm(every: int = 28, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    chosen = [(size(k, shrink, 4), size(mn, shrink, 4)) for k, mn in PRODUCTS[::every]]
    return workload([Operator(Product(mn, k), k, mn) for k, mn in chosen])


def rnn(every: int = 23, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return workload([recurrent(*layer, shrink) for layer in RECURRENT[::every]])


def layers(every: int = 13, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    chosen = rows("ai_matrix_layers", every)
    return workload([operator for row in chosen for operator in operators(row, shrink)])


def recurrent(cell: str, batch: int, sequence: int, width: int, shrink: int) -> Operator:
    inputs = size(INPUTS, shrink, 4)
    layer = Recurrent(cell, inputs, size(width, shrink, 8))
    return Operator(layer, size(sequence, shrink, 4), size(batch, shrink, 2), inputs)


def operators(row: Row, shrink: int) -> list[Operator]:
    batch, channels = size(row["batch"], shrink), size(row["channels"], shrink, 4)
    image = [size(row[name], shrink, 8) for name in ("height", "width") if row[name]]
    features = channels * math.prod(image)
    return [Operator(layer, batch, channels, *image) for layer in of_row(row, channels, features, shrink)]


def of_row(row: Row, channels: int, features: int, shrink: int) -> list[nn.Module]:
    """`features` is the number of values of one sample."""
    match row["operator"]:
        case "conv2d":
            outputs = size(row["out_channels"], shrink, 4)
            return [nn.Conv2d(channels, outputs, int(row["kernel"]), int(row["stride"]), bias=False)]
        case "linear":
            outputs = size(row["out_channels"], shrink, 4)
            return [nn.Sequential(nn.Flatten(), nn.Linear(features, outputs, bias=False))]
        case "pool2d":
            return [pool(int(row["kernel"]), int(row["stride"])) for pool in (nn.MaxPool2d, nn.AvgPool2d)]
        case "batch_norm":
            return [nn.BatchNorm2d(channels)]
        case "activation":
            return [nn.ReLU(), nn.Sigmoid(), nn.Softmax(dim=1), nn.Tanh()]
    raise ValueError(f"the table has an unknown operator: {row['operator']}")
