"""What the packed parameters of a quantised layer hold, as its call's shapes tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from statsnet.signatures.operators import is_tensor
from statsnet.signatures.tensor_lists import each_in_list

QUANTIZED = ("qint8", "quint8")
"""Dtypes of whole numbers of a byte that stand for numbers with a fraction."""

LINEAR, CONVOLUTION = "LinearPackedParamsBase", ("Conv2dPackedParamsBase", "Conv3dPackedParamsBase")
CELL = "CellParamsBase"
"""How the types of such arguments end in torch's schemas."""

STRIDES = (1, 2, 3, 4, 8, 14, 16, 32)
"""Of convolutions, the likeliest first."""

LARGEST_KERNEL = 1024


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

    def output(self, x: Sequence[int], weight: tuple[int, ...]) -> tuple[int, ...] | None:
        """The shape of what the layer makes of a tensor of shape `x`; None if it does not take such a one."""
        if not self.stride:
            return (*x[:-1], weight[0]) if x and x[-1] == weight[1] else None
        if len(x) != len(weight) or x[1] != weight[1] * self.groups:
            return None
        steps = zip(x[2:], self.padding, weight[2:], self.stride, strict=True)
        sizes = [(n + 2 * p - k) // s + 1 for n, p, k, s in steps]
        return (x[0], weight[0], *sizes) if min(sizes) > 0 else None


@dataclass(frozen=True, slots=True)
class Cell:
    """Of a recurrent layer's direction. Its weights for input and state, beside each other, are [gates, inputs +
    hidden]."""

    hidden: int
    bias: bool

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether there is such a cell of an LSTM or GRU with weights of this shape."""
        whole = all(isinstance(n, int) and 0 < n < 2**31 for n in (self.hidden, *shape)) and isinstance(self.bias, bool)
        return whole and len(shape) == 2 and shape[1] > self.hidden and shape[0] in (3 * self.hidden, 4 * self.hidden)


def is_packed(kind: str) -> bool:
    """Whether an argument of this type, as in torch's schemas, holds such parameters, or a list of them."""
    return kind.endswith((LINEAR, *CONVOLUTION, CELL, f"{CELL}[]"))


def cells_of(encoded: Any, hidden: int) -> list[tuple[tuple[int, ...], Cell]] | None:
    """The weights' shape and what stands beside it, for each of a recurrent layer's directions with a state of this
    width; None if one has no weights of bytes."""
    found: list[tuple[tuple[int, ...], Cell]] = []
    for entry in encoded if isinstance(encoded, list) else ():
        tensors = [t for t in each_in_list(entry["tensors"]) if t is not None] if _is_list(entry) else []
        weights = sorted((t["shape"] for t in tensors if is_quantized(t)), key=lambda s: s[1:] == [hidden])
        if len(weights) != 2 or any(len(w) != 2 for w in weights) or weights[1][1] != hidden:
            return None
        shape, cell = (weights[0][0], weights[0][1] + hidden), Cell(hidden, bias=len(tensors) > 2)
        if weights[0][0] != weights[1][0] or not cell.fits(shape):
            return None
        found.append((shape, cell))
    return found or None


def is_quantized(tensor: Any) -> bool:
    """Whether it is a quantised tensor, encoded."""
    return is_tensor(tensor) and tensor["dtype"] in QUANTIZED


def packed_of(
    kind: str, encoded: Any, x: Sequence[int], output: Sequence[int]
) -> tuple[tuple[int, ...], Packed] | None:
    """The weight's shape and what stands beside it, for an argument of this type of a layer that makes `output` of
    `x`; None if it is no weight of bytes, or if no usual stride and padding lead from one to the other. A convolution's
    are not told: the smallest stride that fits counts, with the most padding, without dilation."""
    tensors = [t for t in each_in_list(encoded["tensors"]) if t is not None] if _is_list(encoded) else []
    weights = [tuple(t["shape"]) for t in tensors if is_quantized(t)]  # files keep no order
    if len(weights) != 1:
        return None
    (shape,), found = weights, Packed(bias=len(tensors) > 1)
    if not kind.endswith(LINEAR):
        if not len(x) == len(output) == len(shape) > 2 or not shape[1]:
            return None
        steps = [_step(*sizes) for sizes in zip(x[2:], output[2:], shape[2:], strict=True)]
        stride, padding = zip(*(step or (0, 0) for step in steps), strict=True)
        found = replace(found, stride=stride, padding=padding, groups=x[1] // shape[1])
    whole = found.fits(shape) and found.output(x, shape) == tuple(output)
    return (shape, found) if whole else None


def _is_list(encoded: Any) -> bool:
    return isinstance(encoded, dict) and "tensors" in encoded


def _step(size: int, out: int, kernel: int) -> tuple[int, int] | None:
    """Stride and padding along one axis. Padding reaches half of a kernel at most."""
    if kernel > LARGEST_KERNEL:
        return None
    for stride in STRIDES:
        for padding in range(kernel // 2, -1, -1):
            if (size + 2 * padding - kernel) // stride + 1 == out:
                return stride, padding
    return None
