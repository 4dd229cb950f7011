"""Quantised tensors, and the packed parameters of quantised layers (signatures/quantized.py). The source of these
functions is pasted into networks."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from statsnet.signatures.quantized import Cell, Packed


def quantized(x: Tensor, dtype: torch.dtype = torch.qint8) -> Tensor:
    """Numbers of size one, without strides of their own, as whole numbers of a byte."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch will remove these dtypes one day
        return torch.quantize_per_tensor(x.float(), 0.05, 128 if dtype == torch.quint8 else 0, dtype)


def packed_linear(outputs: int, inputs: int, bias: bool = True) -> Any:
    """The parameters of a quantised linear layer, as its processor's library wants them."""
    weight = quantized(torch.randn(outputs, inputs))
    return torch.ops.quantized.linear_prepack(weight, torch.randn(outputs) if bias else None)


def packed_conv(*shape: int, stride: tuple, padding: tuple, groups: int = 1, bias: bool = True) -> Any:
    """The parameters of a quantised convolution over 2 or 3 axes; `shape` is its weight's."""
    weight, once = quantized(torch.randn(shape)), [1] * len(stride)
    pack = torch.ops.quantized.conv2d_prepack if len(shape) == 4 else torch.ops.quantized.conv3d_prepack
    return pack(weight, torch.randn(shape[0]) if bias else None, [*stride], [*padding], once, groups)


def packed_cell(gates: int, inputs: int, hidden: int, bias: bool = True) -> Any:
    """The parameters of one direction of a quantised recurrent layer; `gates` are those of all hidden units."""
    biases = [torch.randn(gates) if bias else torch.zeros(gates) for _ in range(2)]
    weights = [packed_linear(gates, inputs, bias), packed_linear(gates, hidden, bias)]
    return torch.ops.quantized.make_quantized_cell_params_dynamic(*weights, *biases, True)


def packed_parameters(shape: tuple[int, ...], packed: Packed | Cell) -> Any:
    """The parameters of a quantised layer with a weight of this shape."""
    if isinstance(packed, Cell):
        return packed_cell(shape[0], shape[1] - packed.hidden, packed.hidden, packed.bias)
    if not packed.stride:
        return packed_linear(shape[0], shape[1], packed.bias)
    return packed_conv(*shape, stride=packed.stride, padding=packed.padding, groups=packed.groups, bias=packed.bias)


PACKED_BY = {function.__name__: function for function in (quantized, packed_linear, packed_conv, packed_cell)}
