"""DeepBench's convolutions (baidu-research/DeepBench): 94 for training, 124 for inference; NCHW, no bias.

They come from speech, face recognition, OCR and image classification; spectrograms are wider than high.
"""

from __future__ import annotations

from torch import Tensor, nn

from reference_workloads.micro.deepbench import both_modes
from reference_workloads.micro.operators import Operator
from reference_workloads.micro.table import Row, size


def operator(row: Row, shrink: int) -> Operator:
    batch = size(row["batch"], shrink)
    inputs, outputs = (size(row[name], shrink, 4) for name in ("in_channels", "out_channels"))
    height, width = (size(row[name], shrink, 8) for name in ("height", "width"))
    kernel, pad, stride = ((int(row[f"{name}_h"]), int(row[f"{name}_w"])) for name in ("kernel", "pad", "stride"))
    layer = nn.Conv2d(inputs, outputs, kernel, stride, pad, bias=False)
    return Operator(layer, batch, inputs, height, width)


def build(every: int = 9, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`every` takes each n-th row of both modes, `shrink` divides all but kernels, padding and strides."""
    return both_modes("deepbench_conv", operator, every, shrink)
