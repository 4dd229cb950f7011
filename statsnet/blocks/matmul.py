"""Batched matrix products of two activations."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from statsnet.blocks.base import Block, BlockKind, Config, divided, numbers
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import TensorSpec

FEWEST_COLUMNS = 16
"""A product is narrowed to this at least: fewer columns do not fill a vector."""


class BatchedMatMul(Block):
    """batch × (rows × depth) times batch × (depth × columns); the second factor is a side input. Each may be stored
    `transposed`, the first as `first_transposed` says."""

    def __init__(
        self, batch: int, rows: int, depth: int, columns: int, transposed: bool = False,
        first_transposed: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(batch, *((depth, rows) if first_transposed else (rows, depth)))
        self.transposed, self.first_transposed = transposed, first_transposed
        shape = (batch, columns, depth) if transposed else (batch, depth, columns)
        self.side_input = nn.Parameter(numbers(*shape) / math.sqrt(depth))

    def forward(self, x: Tensor) -> Tensor:
        side_input = self.side_input.mT if self.transposed else self.side_input
        x = self.enter(x)
        return torch.bmm(x.mT if self.first_transposed else x, side_input)


class MatMulKind(BlockKind):
    name = "batched_matmul"
    module = BatchedMatMul
    mixes = True

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first = motif[0]
        position: Any = {"bmm": (0, 1), "baddbmm": (1, 2)}.get(base_name(first.op))
        if position is None:
            return None
        a, b = (TensorSpec.from_dict(first.args[i]) for i in position)
        batch, rows, depth = a.shape
        config: Config = {
            "batch": batch,
            "rows": rows,
            "depth": depth,
            "columns": b.shape[2],
            "transposed": b.layout == "transposed",
        }
        return {**config, "first_transposed": True} if a.layout == "transposed" else config

    def hands_back_a_view(self, config: Config) -> bool:
        return bool(config.get("first_transposed"))

    def flops(self, config: Config) -> float:
        return 2.0 * config["batch"] * config["rows"] * config["depth"] * config["columns"]

    def scaled(self, config: Config, divisor: float) -> Config | None:
        batch = divided(config["batch"], divisor)
        return None if batch is None else {**config, "batch": batch}

    def narrowed(self, config: Config, divisor: int) -> Config | None:
        """Fewer columns: each product keeps its depth, and so its kernel."""
        columns = divided(config["columns"], divisor)
        return None if columns is None or columns < FEWEST_COLUMNS else {**config, "columns": columns}
