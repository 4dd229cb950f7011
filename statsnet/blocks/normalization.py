"""Normalisation on its own. If it follows a convolution, it is part of that block."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from statsnet.blocks.base import Block, BlockKind, Config, divided, side_input
from statsnet.blocks.conv import OF_ACTIVATIONS, activation_behind, adds_a_branch, is_batch_norm
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster


class Norm(Block):
    """Layer, batch, group or instance norm over a tensor of `shape`, with an optional addition of a side input before
    it and an activation behind it. An instance norm has weights if it is `affine`; all others have them. A `frozen`
    batch norm keeps its statistics in training."""

    def __init__(
        self, kind: str, shape: tuple, groups: int = 1, activation: str = "", residual: bool = False,
        affine: bool = False, frozen: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(*shape)
        self.maps, self.frozen = kind != "layer", frozen
        self.norm: Any
        if kind == "layer":
            self.norm = nn.LayerNorm(shape[-1])
        elif kind == "group":
            self.norm = nn.GroupNorm(groups, shape[1])
        elif kind == "instance":
            instance_norms = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
            self.norm = instance_norms[len(shape) - 3](shape[1], affine=affine)
        else:
            norms = (nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
            self.norm = norms[len(shape) - 2](shape[1])
        self.activation = getattr(F, activation) if activation else None
        self.side_input = side_input(*shape) if residual else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        if self.side_input is not None:
            x = x + self.side_input
        n = self.norm
        y = F.batch_norm(x, n.running_mean, n.running_var, n.weight, n.bias) if self.frozen else n.forward(x)
        return y if self.activation is None else self.activation(y)


NORMS = ("layer", "batch", "group", "instance")


class NormKind(BlockKind):
    name = "norm"
    memory_bound = True
    module = Norm
    mixes = True
    helpers = (side_input,)
    words: ClassVar = {"kind": NORMS, **OF_ACTIVATIONS}

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        residual = len(motif) > 1 and adds_a_branch(motif[0])
        motif = motif[residual:]
        first, base = motif[0], base_name(motif[0].op)
        kind = next((k for k in NORMS if f"{k}_norm" in base), None)
        if kind is None or (residual and kind != "layer"):
            return None
        shape = tuple(first.args[0]["shape"])
        if kind == "batch" and not is_batch_norm(first):
            if shape[0] > 1 or len(shape) < 3:
                return None
            kind = "instance"  # all maps of a batch stand in a row
        if kind == "layer":
            width = math.prod(first.args[1])
            rows = math.prod(shape) // width
            # A sequence keeps its three axes: to norms of two, onnxruntime was seen to join no addition.
            shape = (1, rows, width) if len(shape) - len(first.args[1]) > 1 else (rows, width)
        config: Config = {"kind": kind, "shape": shape, "activation": activation_behind(motif)}
        if residual:
            config["residual"] = True
        if kind == "instance" and first.args[1] is not None:
            config["affine"] = True
        if kind == "group":
            config["groups"] = first.args[6]
            if base == "native_group_norm" and len(shape) == 2:
                return None
        return config if len(shape) >= 2 else None

    def steady(self, config: Config) -> bool:
        """After several norms and relus, one value per channel is left; and a frozen norm leaves values as they are."""
        return not config.get("activation") and not config.get("frozen")

    def scaled(self, config: Config, divisor: float) -> Config | None:
        if config["kind"] == "layer":
            *ones, rows, width = config["shape"]
            fewer = divided(rows, divisor)
            return None if fewer is None else {**config, "shape": (*ones, fewer, width)}
        batch, *rest = config["shape"]
        if batch >= divisor:
            kept = round(batch / divisor)
            if config["kind"] == "batch" and kept * math.prod(rest[1:]) < 2:
                return None
            return {**config, "shape": (kept, *rest)}
        if config["kind"] in ("batch", "instance") and len(rest) > 1:
            channels = divided(rest[0], -(-divisor // batch))
            return None if channels is None else {**config, "shape": (1, channels, *rest[1:])}
        return None
