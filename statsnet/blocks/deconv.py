"""Transposed convolution ("deconvolution"), with the batch norm and activation that follow it."""

from __future__ import annotations

import math
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from statsnet.blocks.base import Block, BlockKind, Config, divided, per_axis, resized_map
from statsnet.blocks.conv import OF_ACTIVATIONS, activation_behind, normalized
from statsnet.blocks.convolution_library import Window, library
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster


class Deconv(Block):
    """Transposed convolution over 1, 2 or 3 axes, with optional batch norm and activation. A `frozen` batch norm keeps
    its statistics in training."""

    maps = True

    def __init__(
        self, batch: int, channels: int, size: tuple, filters: int, kernel: tuple, stride: tuple,
        padding: tuple, longer: tuple = (), groups: int = 1, bias: bool = False, norm: bool = False,
        activation: str = "", frozen: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(batch, channels, *size)
        axes = len(size)
        deconv = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[axes - 1]
        bn = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[axes - 1]
        self.deconv = deconv(channels, filters, kernel, stride, padding, longer or 0, groups, bias)
        summed = channels / groups * math.prod(kernel) / math.prod(stride)  # about so many terms per output
        nn.init.normal_(self.deconv.weight, std=math.sqrt(2 / summed))
        self.norm, self.frozen = bn(filters) if norm else None, frozen
        self.activation = getattr(F, activation) if activation else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.deconv.forward(self.enter(x))
        if (n := self.norm) is not None:
            y = F.batch_norm(y, n.running_mean, n.running_var, n.weight, n.bias) if self.frozen else n.forward(y)
        return y if self.activation is None else self.activation(y)


class DeconvKind(BlockKind):
    name = "deconv"
    module = Deconv
    mixes = True
    words = OF_ACTIVATIONS

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first = motif[0]
        if base_name(first.op) != "convolution" or not first.args[6]:
            return None
        x, weight, bias = first.args[0], first.args[1], first.args[2]
        batch, channels, *size = x["shape"]
        stride, padding, dilation, longer = (per_axis(first.args[i], len(size)) for i in (3, 4, 5, 7))
        if {*dilation} != {1}:
            return None
        config: Config = {
            "batch": batch,
            "channels": channels,
            "size": tuple(size),
            "filters": weight["shape"][1] * first.args[8],
            "kernel": tuple(weight["shape"][2:]),
            "stride": stride,
            "padding": padding,
            "groups": first.args[8],
            "bias": bias is not None,
            "norm": normalized(motif),
            "activation": activation_behind(motif),
        }
        return {**config, "longer": longer} if any(longer) else config

    def flops(self, config: Config) -> float:
        module: Any = self.on_meta(config)
        return 2.0 * config["batch"] * math.prod(config["size"]) * module.deconv.weight.numel()

    def scaled(self, config: Config, divisor: float) -> Config | None:
        batch = divided(config["batch"], divisor)
        return _same_library(config, None if batch is None else {**config, "batch": batch})

    def resized(self, config: Config, factor: float) -> Config | None:
        return _same_library(config, resized_map(config, factor))

    def narrowed(self, config: Config, divisor: int) -> Config | None:
        """Fewer filters; once few are left, fewer channels."""
        if config.get("groups", 1) > 1:
            return None
        kept = {"filters": config["filters"], "channels": config["channels"]}
        while divisor > 1:
            axis = "filters" if kept["filters"] >= 32 else "channels"
            if kept[axis] < 32:
                return None
            kept[axis] //= 2
            divisor //= 2
        return _same_library(config, {**config, **kept})


def _same_library(config: Config, changed: Config | None) -> Config | None:
    """`changed`; None if torch has another library run it."""
    return changed if changed and _library(changed) == _library(config) else None


def _library(config: Config) -> str:
    """What torch would have run it."""
    axes, groups = len(config["size"]), config.get("groups", 1)
    x = config["batch"], config["channels"], *config["size"]
    weight = config["channels"], config["filters"] // groups, *config["kernel"]
    longer = config.get("longer") or (0,) * axes
    return library(x, weight, Window(config["stride"], config["padding"], (1,) * axes, True, longer), groups)
