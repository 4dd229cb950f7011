"""Sums of rows by index, as graph networks sum up their neighbours' messages."""

from __future__ import annotations

import torch
from torch import Tensor

from statsnet.blocks.base import Block, BlockKind, Config, divided
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import is_tensor


class ScatterAdd(Block):
    """The rows of a tensor of `shape`, summed into `rows` rows by a fixed random index. If `expanded`, all
    entries of a row share one index, as in graph libraries."""

    index: Tensor

    def __init__(self, shape: tuple, rows: int, expanded: bool = True) -> None:
        super().__init__(*shape)
        self.rows, self.expanded = rows, expanded
        index = torch.randint(rows, (shape[0],) if expanded else shape)
        self.register_buffer("index", index.reshape(-1, *(1 for _ in shape[1:])) if expanded else index)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        index = self.index.expand_as(x) if self.expanded else self.index
        return x.new_zeros(self.rows, *x.shape[1:]).scatter_add_(0, index, x)


class ScatterAddKind(BlockKind):
    name = "scatter_add"
    module = ScatterAdd

    def steady(self, config: Config) -> bool:
        return False  # sums grow

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first = motif[0]
        known = base_name(first.op) in ("scatter_add", "scatter_add_") and len(first.args) >= 4
        if not known or not all(is_tensor(first.args[i]) for i in (0, 2, 3)) or not first.args[0]["shape"]:
            return None
        into, axis, index, source = first.args[:4]
        if axis % len(into["shape"]) or not source["dtype"].startswith(("float", "bfloat")):
            return None
        spread = len(index["shape"]) > 1 and index.get("strides") is not None
        expanded = spread and not any(index["strides"][1:])
        return {"shape": tuple(source["shape"]), "rows": into["shape"][0], "expanded": expanded}

    def scaled(self, config: Config, divisor: float) -> Config | None:
        """Fewer rows read and written: each row written is still the sum of as many."""
        count, *rest = config["shape"]
        kept, rows = divided(count, divisor), divided(config["rows"], divisor)
        return None if kept is None or rows is None else {**config, "shape": (kept, *rest), "rows": rows}
