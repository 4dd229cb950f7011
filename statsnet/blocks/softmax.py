"""Softmax over one axis."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from statsnet.blocks.base import Block, BlockKind, Config
from statsnet.blocks.pointwise import divide_leading
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster


class Softmax(Block):
    """Softmax, or its logarithm, along `axis` of a tensor of `shape`; a `safe` one as in masked attention, where rows
    may be masked as a whole."""

    def __init__(self, shape: tuple, axis: int = -1, log: bool = False, safe: bool = False) -> None:
        super().__init__(*shape)
        self.axis = axis
        self.function = torch._safe_softmax if safe else F.log_softmax if log else F.softmax

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.enter(x), self.axis)


class SoftmaxKind(BlockKind):
    name = "softmax"
    memory_bound = True
    module = Softmax

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        base = base_name(motif[0].op)
        if base not in ("_softmax", "_log_softmax", "_safe_softmax"):
            return None
        shape = tuple(motif[0].args[0]["shape"])
        axis = motif[0].args[1] % len(shape)
        config: Config = {"shape": shape, "axis": axis, "log": base == "_log_softmax"}
        return {**config, "safe": True} if base == "_safe_softmax" else config

    def steady(self, config: Config) -> bool:
        return False  # values and gradients shrink by the length of the axis; logarithms are all negative

    def scaled(self, config: Config, divisor: float) -> Config | None:
        shape = divide_leading(config["shape"], divisor, keep=config["axis"])
        return None if shape is None else {**config, "shape": shape}
