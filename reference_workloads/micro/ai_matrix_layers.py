"""AI Matrix's layers of CNNs (alibaba/ai-matrix): 315 rows of AlexNet, GoogLeNet, VGG, ResNet and DenseNet.

No padding and no biases, as in its script. It times max and average pooling on each row for pooling, and four
functions on each row for activations; so does this. The table's NHWC sizes are NCHW tensors here. Its batch
normalisation is given means and variances; here it is torch's, which computes them in training.
"""

from __future__ import annotations

import math

from torch import Tensor, nn

from reference_workloads.micro.operators import Operator, workload
from reference_workloads.micro.table import Row, rows, size


def layers(row: Row, channels: int, features: int, shrink: int) -> list[nn.Module]:
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


def operators(row: Row, shrink: int) -> list[Operator]:
    batch, channels = size(row["batch"], shrink), size(row["channels"], shrink, 4)
    image = [size(row[name], shrink, 8) for name in ("height", "width") if row[name]]
    features = channels * math.prod(image)
    return [Operator(layer, batch, channels, *image) for layer in layers(row, channels, features, shrink)]


def build(every: int = 13, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`every` takes each n-th row, `shrink` divides all but kernels and strides."""
    chosen = rows("ai_matrix_layers", every)
    return workload([operator for row in chosen for operator in operators(row, shrink)])
