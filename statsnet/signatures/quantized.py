"""What the packed parameters of a quantised layer hold, as its call's shapes tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from statsnet.signatures.operators import is_tensor
from statsnet.signatures.tensor_lists import each_in_list

QUANTIZED = ("qint8", "quint8")
"""Dtypes of whole numbers of a byte that stand for numbers with a fraction."""

LINEAR, CONVOLUTION = "LinearPackedParamsBase", ("Conv2dPackedParamsBase", "Conv3dPackedParamsBase")
"""How the types of such arguments end in torch's schemas."""

STRIDES = (1, 2, 3, 4, 8, 14, 16, 32)
"""Of convolutions, the likeliest first."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Beside the weight, [outputs, inputs] or [filters, channels / groups, *kernel]; `stride`, `padding` and `groups`
    are a convolution's."""

    bias: bool
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    groups: int = 1

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether there is such a layer with a weight of this shape."""
        numbers = [*self.stride, *self.padding, self.groups, *shape]
        whole = all(isinstance(n, int) and 0 <= n < 2**31 for n in numbers) and isinstance(self.bias, bool)
        axes = len(shape) - 2
        known = len(self.stride) == len(self.padding) == axes and axes in (0, 2, 3)
        return whole and known and 0 not in (*self.stride, *shape, self.groups) and shape[0] % self.groups == 0

    def output(self, x: Sequence[int], weight: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of what the layer makes of a tensor of shape `x`."""
        if not self.stride:
            return (*x[:-1], weight[0])
        steps = zip(x[2:], self.padding, weight[2:], self.stride, strict=True)
        return (x[0], weight[0], *((n + 2 * p - k) // s + 1 for n, p, k, s in steps))


def is_packed(kind: str) -> bool:
    """Whether an argument of this type, as in torch's schemas, holds such parameters."""
    return kind.endswith((LINEAR, *CONVOLUTION))


def is_quantized(tensor: Any) -> bool:
    """Whether it is a quantised tensor, encoded."""
    return is_tensor(tensor) and tensor["dtype"] in QUANTIZED


def packed_of(
    kind: str, encoded: Any, x: Sequence[int], output: Sequence[int]
) -> tuple[tuple[int, ...], Packed] | None:
    """The weight's shape and what stands beside it, for an argument of this type of a layer that makes `output` of
    `x`; None if it is no weight of bytes, or if no usual stride and padding lead from one to the other. A convolution's
    are not told: the smallest stride that fits counts, with the most padding, without dilation."""
    tensors = [t for t in each_in_list(encoded["tensors"]) if t is not None] if isinstance(encoded, dict) else []
    weights = [tuple(t["shape"]) for t in tensors if is_quantized(t)]  # files keep no order
    if len(weights) != 1:
        return None
    (shape,), bias = weights, len(tensors) > 1
    if kind.endswith(LINEAR):
        found = Packed(bias)
        return (shape, found) if found.fits(shape) and len(shape) == 2 and x[-1] == shape[1] else None
    if len(x) != len(shape) or len(output) != len(shape) or not shape[1] or x[1] % shape[1]:
        return None
    steps = [_step(*sizes) for sizes in zip(x[2:], output[2:], shape[2:], strict=True)]
    if None in steps:
        return None
    stride, padding = zip(*filter(None, steps), strict=True)
    found = Packed(bias, stride, padding, x[1] // shape[1])
    return (shape, found) if found.fits(shape) else None


def _step(size: int, out: int, kernel: int) -> tuple[int, int] | None:
    """Stride and padding along one axis. Padding reaches half of a kernel at most."""
    for stride in STRIDES:
        for padding in range(kernel // 2, -1, -1):
            if (size + 2 * padding - kernel) // stride + 1 == out:
                return stride, padding
    return None
