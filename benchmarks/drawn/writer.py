"""A random network while it is being written: layers of `__init__`, lines of `forward`, and the shape so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

T = TypeVar("T")

ACTIVATIONS = (
    "torch.relu", "F.gelu", "F.silu", "torch.tanh", "torch.sigmoid", "F.elu", "F.leaky_relu", "F.hardswish", "F.mish",
    "F.softplus", "F.relu6",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """From what a network's sizes are drawn. `most_values` is the largest tensor for one sample, `most_flops` the most
    work of one layer for one sample."""

    stages: tuple[int, int]
    widths: tuple[int, ...]
    sides: tuple[int, ...]
    lengths: tuple[int, ...]
    vocabulary: tuple[int, int]
    most_values: int
    most_flops: float


NORMAL = Sizes(
    stages=(4, 12),
    widths=(16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384),
    sides=(24, 32, 40, 48, 56, 64, 80, 96, 112, 128),
    lengths=(16, 24, 32, 50, 64, 96, 128, 200, 256),
    vocabulary=(500, 50_000),
    most_values=500_000,
    most_flops=1.5e9,
)
TINY = Sizes(
    stages=(4, 8), widths=(8, 16), sides=(8, 12), lengths=(6, 8), vocabulary=(10, 50), most_values=4_000, most_flops=1e6
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of `x`, without the batch: (channels, height, width) of a map, (length, width) of a sequence, or
    (width,) of a vector."""

    dims: tuple[int, ...]

    @property
    def kind(self) -> str:
        return {3: "map", 2: "sequence", 1: "vector"}[len(self.dims)]

    @property
    def values(self) -> int:
        return math.prod(self.dims)


@dataclass(slots=True)
class Writer:
    """`random` decides everything. A layer's expression becomes an attribute of the module; `step` adds a line to
    `forward`, which works on `x` and may use other names."""

    random: Random
    sizes: Sizes
    layers: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)

    def layer(self, expression: str) -> str:
        """Adds a layer, or a parameter; returns how `forward` names it."""
        name = f"self.layer{len(self.layers)}"
        self.layers.append(f"{name} = {expression}")
        return name

    def there_and_back(self, outer: int, inner: int) -> tuple[str, str]:
        """Two dense layers: from one width to another, and back."""
        return self.layer(f"nn.Linear({outer}, {inner})"), self.layer(f"nn.Linear({inner}, {outer})")

    def step(self, line: str) -> None:
        self.steps.append(line)

    def name(self) -> str:
        """A new local name of `forward`."""
        return f"y{len(self.steps)}"

    def choice(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def width(self, *, flops_per_channel: float = 0.0, values_per_channel: int = 1, multiple: int = 1) -> int:
        """A width, such that the layer's output and work stay within their limits where any width does."""
        fitting = [
            width
            for width in self.sizes.widths
            if width % multiple == 0
            and width * values_per_channel <= self.sizes.most_values
            and width * flops_per_channel <= self.sizes.most_flops
        ]
        return self.choice(fitting or [max(self.sizes.widths[0], multiple)])

    def activation(self, value: str = "x") -> str:
        return f"{self.choice(ACTIVATIONS)}({value})"

    def divisor(self, number: int, options: Sequence[int]) -> int:
        """One of the options that divides the number; 1 if none does."""
        return self.choice([option for option in options if number % option == 0] or [1])
