"""A matrix product as data, and the window of a convolution that was lowered to one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from msgspec import Meta

from statsnet.signatures.limits import Quantity

Dim = Annotated[int, Meta(ge=1, le=2**40)]
Dims = Annotated[tuple[Dim, ...], Meta(min_length=1, max_length=3)]
Paddings = Annotated[tuple[Annotated[int, Meta(ge=0, le=2**40)], ...], Meta(min_length=1, max_length=3)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The geometry of a convolution; sizes are per axis of space, the last one the fastest."""

    images: Dim
    groups: Dim
    in_channels: Dim
    out_channels: Dim
    in_size: Dims
    out_size: Dims
    kernel: Dims
    stride: Dims
    padding: Paddings
    dilation: Dims
    transposed: bool = False

    @property
    def covered(self) -> tuple[int, ...]:
        """Of each axis of space, the elements from the first to the last that the windows read, padding included."""
        axes = zip(self.out_size, self.kernel, self.stride, self.dilation, strict=True)
        return tuple((out - 1) * stride + (kernel - 1) * dilation + 1 for out, kernel, stride, dilation in axes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """`batch` independent products [rows, depth] x [depth, columns], `times` times one after the other in one call.

    `density` is the share of the dense product's multiply-adds that are needed: causal attention needs about half, a
    sparse matrix those of its stored elements.
    """

    rows: Dim
    columns: Dim
    depth: Dim
    batch: Dim = 1
    times: Quantity = 1.0
    density: Annotated[float, Meta(ge=0, le=1)] = 1.0
    window: Window | None = None

    @property
    def dense_macs(self) -> int:
        """Multiply-adds of one of the dense products."""
        return self.rows * self.columns * self.depth

    @property
    def alone(self) -> Product:
        """One of the dense products."""
        return replace(self, batch=1, times=1.0, density=1.0)

    @property
    def repeats(self) -> float:
        """How many of these dense products one call is worth."""
        return self.batch * self.times * self.density

    @property
    def macs(self) -> float:
        """Multiply-adds of one call that are needed."""
        return self.repeats * self.dense_macs

    @property
    def operand_elements(self) -> tuple[int, int, int]:
        """Elements of one dense product's inputs, weights and outputs."""
        return self.rows * self.depth, self.depth * self.columns, self.rows * self.columns
