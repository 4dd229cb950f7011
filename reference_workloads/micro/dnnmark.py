"""DNNMark's primitives (shidong-ai/DNNMark) in the sizes of its example configurations, 84 in all.

A file of one primitive is a row; activation_config and pool_config run in DNNMark's other modes, too. Each
distinct layer of alexnet, VGG16 and resnet is a row, with the sizes that follow from the network's first one.
softmax_config, bn_config and dropout_config were not at hand: 100 x 1000 values are bypass_config's size and
that of the batch normalisation in gem5's list of DNNMark's kernels; the rate of dropout is DNNMark's default.
Normalisation per activation has statistics for each value of a sample. No biases.
"""

from __future__ import annotations

from torch import Tensor, nn

from reference_workloads.micro.operators import Operator, workload
from reference_workloads.micro.table import Row, rows, size

ACTIVATIONS = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh}
POOLINGS = {"max": nn.MaxPool2d, "average": nn.AvgPool2d}


def operator(row: Row, shrink: int) -> Operator:
    batch, channels = size(row["batch"], shrink, 2), size(row["channels"], shrink, 4)
    height, width = (size(row[name], shrink, 8) for name in ("height", "width"))
    image, flat = (batch, channels, height, width), (batch, channels * height * width)
    match row["operator"]:
        case "convolution":
            outputs = size(row["out_channels"], shrink, 4)
            kernel, stride, pad = (int(row[name]) for name in ("kernel", "stride", "pad"))
            return Operator(nn.Conv2d(channels, outputs, kernel, stride, pad, bias=False), *image)
        case "pooling":
            kernel, stride, pad = (int(row[name]) for name in ("kernel", "stride", "pad"))
            return Operator(POOLINGS[row["mode"]](kernel, stride, pad), *image)
        case "lrn":
            return Operator(nn.LocalResponseNorm(int(row["kernel"]), alpha=1e-4, beta=0.75, k=1.0), *image)
        case "activation":
            return Operator(ACTIVATIONS[row["mode"]](), *image)
        case "fully_connected":
            return Operator(nn.Linear(flat[1], size(row["out_channels"], shrink, 4), bias=False), *flat)
        case "softmax":
            return Operator(nn.Softmax(dim=1), *image)
        case "batch_norm":
            return Operator(nn.BatchNorm1d(flat[1]), *flat)
        case "dropout":
            return Operator(nn.Dropout(0.5), *image)
    raise ValueError(f"the table has an unknown operator: {row['operator']}")


def build(every: int = 15, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`every` takes each n-th row, `shrink` divides all but kernels, padding and strides."""
    return workload([operator(row, shrink) for row in rows("dnnmark", every)])
