"""One vector beside each of several others, and what is made of both: what attention over a history reads."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from statsnet.blocks.base import Block, BlockKind, Config, divided
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import tensors_of


class Comparison(Block):
    """Of each of `batch` rows of `items` + 1 vectors, the first beside each other one, and what `functions` make of the
    two, concatenated. A compiler writes all of them where they are concatenated, in one pass."""

    def __init__(self, batch: int, items: int, width: int, functions: tuple) -> None:
        super().__init__(batch, items + 1, width)
        self.functions = [getattr(torch, name) for name in functions]

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        others = x[:, 1:]
        one = x[:, 0, None].expand_as(others)
        return torch.cat([one, others, *(function(one, others) for function in self.functions)], -1)


FUNCTIONS = ("sub", "mul")
"""A concatenation does not tell what its other parts were made by. If they were made otherwise, the block's operators
are others than the mix's, and the program does not use it."""


class ComparisonKind(BlockKind):
    name = "comparison"
    module = Comparison
    words: ClassVar = {"functions": FUNCTIONS}

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        """None: alone, the operator is a concatenation."""
        return None

    def from_step(self, motif: list[Cluster]) -> Config | None:
        if base_name(motif[0].op) != "cat" or len(motif) > 1:
            return None
        one, others, *made = tensors_of(motif[0].args[:1])
        batch, items, width = one.shape
        row = (items + 1) * width
        are_views = (one.strides, others.strides) == ((row, 0, 1), (row, width, 1))
        are_alike = all(piece.shape == one.shape for piece in (others, *made))
        if not are_views or not are_alike or [piece.strides for piece in made] != [None] * len(FUNCTIONS):
            return None
        is_last = len(motif[0].args) > 1 and motif[0].args[1] in (-1, 2)
        return {"batch": batch, "items": items, "width": width, "functions": FUNCTIONS} if is_last else None

    def steady(self, config: Config) -> bool:
        return False  # products of two vectors have many small values and some large ones

    def scaled(self, config: Config, divisor: float) -> Config | None:
        batch = divided(config["batch"], divisor)
        return None if batch is None else {**config, "batch": batch}
