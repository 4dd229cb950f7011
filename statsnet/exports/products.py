"""A matrix product as data, and the window of a convolution that was lowered to one."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The geometry of a convolution; sizes are per axis of space, the last one the fastest."""

    images: int
    groups: int
    in_channels: int
    out_channels: int
    in_size: tuple[int, ...]
    out_size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
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

    rows: int
    columns: int
    depth: int
    batch: int = 1
    times: float = 1.0
    density: float = 1.0
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
