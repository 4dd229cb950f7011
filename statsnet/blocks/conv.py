"""Convolution, with the batch norm, residual addition and activation that follow it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from statsnet.blocks.base import (
    SMALLEST_MAP,
    Block,
    BlockKind,
    Config,
    divided,
    per_axis,
    resized_map,
    side_input,
)
from statsnet.blocks.convolution_library import Window, library
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import TensorSpec, is_tensor
from statsnet.signatures.shapes import MANY_IMAGES


class Conv(Block):
    """Convolution over 1, 2 or 3 axes, with optional batch norm, addition of a branch (a side input, unless one comes
    with the map), and activation. A `frozen` batch norm keeps its statistics in training. With `channels_last`, the map
    that it reads has its channels innermost in memory. The axis `output_last_axis` of the output, if there is one, is
    the last one for later layers, and so in the gradient's memory."""

    maps = True

    def __init__(
        self, batch: int, channels: int, size: tuple, filters: int, kernel: tuple, stride: tuple,
        padding: tuple, dilation: tuple = (), groups: int = 1, bias: bool = False, norm: bool = False,
        residual: bool = False, activation: str = "", channels_last: bool = False, output_last_axis: int = -1,
        frozen: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(batch, *((*size, channels) if channels_last else (channels, *size)))
        self.channels_last, self.output_last_axis = channels_last, output_last_axis
        self.maps = not channels_last
        axes = len(size)
        conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1]
        bn = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[axes - 1]
        self.conv = conv(channels, filters, kernel, stride, padding, dilation or 1, groups, bias)
        nn.init.kaiming_normal_(self.conv.weight, nonlinearity="relu")
        self.norm, self.frozen = bn(filters) if norm else None, frozen
        steps = zip(size, kernel, stride, padding, dilation or (1,) * axes, strict=True)
        out = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in steps]
        self.side_input = side_input(batch, filters, *out) if residual else None
        if self.side_input is not None and channels_last and axes > 1:  # as the convolution writes its output
            last_format = torch.channels_last if axes == 2 else torch.channels_last_3d
            self.side_input.data = self.side_input.data.contiguous(memory_format=last_format)
        self.activation = getattr(F, activation) if activation else None

    def forward(self, x: Tensor, branch: Tensor | None = None) -> Tensor:
        x = self.enter(x)
        y = self.conv.forward(x.movedim(-1, 1) if self.channels_last else x)
        if (n := self.norm) is not None:
            y = F.batch_norm(y, n.running_mean, n.running_var, n.weight, n.bias) if self.frozen else n.forward(y)
        if branch is None:
            branch = self.side_input
        if branch is not None:
            y = y + branch
        if self.activation is not None:
            y = self.activation(y)
        return y if self.output_last_axis < 0 else y.movedim(self.output_last_axis, -1)


ACTIVATIONS = {
    "relu": "relu", "relu_": "relu", "clamp_min": "relu", "hardtanh": "relu6", "hardtanh_": "relu6",
    "gelu": "gelu", "silu": "silu", "silu_": "silu", "sigmoid": "sigmoid", "tanh": "tanh", "elu": "elu",
    "leaky_relu": "leaky_relu", "leaky_relu_": "leaky_relu", "hardswish": "hardswish",
    "hardswish_": "hardswish", "mish": "mish", "softplus": "softplus", "hardsigmoid": "hardsigmoid",
}  # fmt: skip
"""ATen operator to the function of torch.nn.functional that runs it."""

OF_ACTIVATIONS = {"activation": {"", *ACTIVATIONS.values()}}
"""The texts of blocks that an activation may follow, by argument (see BlockKind.words)."""


def activation_behind(motif: list[Cluster]) -> str:
    """The first activation after a motif's first operator, "" if there is none."""
    names = (base_name(c.op) for c in motif[1:])
    return next((ACTIVATIONS[name] for name in names if name in ACTIVATIONS), "")


def adds_a_branch(cluster: Cluster) -> bool:
    """Whether it is the sum of two tensors of one shape, neither of them expanded."""
    tensors = [a for a in cluster.args if is_tensor(a)]
    if base_name(cluster.op) not in ("add", "add_") or any(0 in (a.get("strides") or ()) for a in tensors):
        return False
    return len(tensors) == 2 and tensors[0]["shape"] == tensors[1]["shape"]


def channels_are_last(map_: TensorSpec) -> bool:
    """Whether the channels of a map (batch × channels × size) are innermost in memory."""
    return map_.layout == ("transposed" if len(map_.shape) == 3 else "channels_last")


def is_batch_norm(cluster: Cluster) -> bool:
    """Not one without running statistics, as an instance norm is: it finds its own in inference too."""
    return "batch_norm" in base_name(cluster.op) and any(map(is_tensor, cluster.args[3:5]))


def has_frozen_norm(motif: Sequence[Cluster]) -> bool:
    """Whether a batch norm among a training step's operators keeps its statistics, as in fine-tuning."""
    norms = [c for c in motif if is_batch_norm(c)]
    return any("no_training" in c.op or (len(c.args) > 5 and c.args[5] is False) for c in norms)


def normalized(motif: list[Cluster]) -> bool:
    """Whether a batch norm comes after a motif's first operator."""
    return any(map(is_batch_norm, motif[1:]))


class ConvKind(BlockKind):
    name = "conv"
    module = Conv
    mixes = True
    helpers = (side_input,)
    words = OF_ACTIVATIONS

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first = motif[0]
        if base_name(first.op) != "convolution" or first.args[6]:  # a transposed convolution
            return None
        x, weight, bias = first.args[0], first.args[1], first.args[2]
        batch, channels, *size = x["shape"]
        config: Config = {
            "batch": batch,
            "channels": channels,
            "size": tuple(size),
            "filters": weight["shape"][0],
            "kernel": tuple(weight["shape"][2:]),
            "stride": per_axis(first.args[3], len(size)),
            "padding": per_axis(first.args[4], len(size)),
            "groups": first.args[8],
            "bias": bias is not None,
            "residual": any(map(adds_a_branch, motif[1:])),
            "norm": normalized(motif),
            "activation": activation_behind(motif),
        }
        dilation = per_axis(first.args[5], len(size))
        if any(d != 1 for d in dilation):
            config["dilation"] = dilation
        if channels_are_last(TensorSpec.from_dict(x)):
            config["channels_last"] = True
        return config

    def with_output_last_axis(self, config: Config, axis: int) -> Config | None:
        return {**config, "output_last_axis": axis} if axis < len(config["size"]) + 1 else None

    def flops(self, config: Config) -> float:
        module: Any = self.on_meta(config)
        return 2.0 * config["batch"] * math.prod(output_map(config)) * module.conv.weight.numel()

    def scaled(self, config: Config, divisor: float) -> Config | None:
        """Fewer images. A pointwise convolution keeps MANY_IMAGES and gets lower maps instead: it has no windows."""
        batch = config["batch"]
        if batch / divisor < MANY_IMAGES <= batch and is_pointwise(config):
            return _lower(config, batch / divisor / MANY_IMAGES)
        kept = divided(batch, divisor)
        return None if kept is None else same_library(config, {**config, "batch": kept})

    def resized(self, config: Config, factor: float) -> Config | None:
        lower = config["batch"] * factor < MANY_IMAGES <= config["batch"] and is_pointwise(config)
        return self.scaled(config, 1 / factor) if lower else same_library(config, resized_map(config, factor))

    def narrowed(self, config: Config, divisor: int) -> Config | None:
        """Lower maps of the same width, down to SMALLEST_MAP and a window; then fewer filters, down to FEWEST_FILTERS.
        In this order a map's rows and each product's depth, and so the kernel, stay the same as long as possible."""
        (height, *rest), factor = config["size"], divisor
        least = max(SMALLEST_MAP, _extents(config)[0])
        narrow = config
        while factor > 1 and len(rest) == 1 and height // 2 >= least:
            height = height // 2
            lower = same_library(config, {**config, "size": (height, *rest)})
            if lower is None:
                break
            narrow, factor = lower, factor // 2
        filters, groups = config["filters"], config.get("groups", 1)
        if factor == 1:
            return narrow
        if groups > 1:
            if groups != config["channels"] or filters != groups or groups < 16 * factor:
                return None
            # oneDNN's kernels for short vectors take only multiples of 16 channels; it uses matrix products for others.
            kept = groups // factor // 16 * 16
            return {**narrow, "channels": kept, "filters": kept, "groups": kept}
        if filters < FEWEST_FILTERS * factor:
            return None
        return same_library(config, {**narrow, "filters": filters // factor // 16 * 16})


FEWEST_FILTERS = 64
"""A convolution is narrowed to this at least. With 16 filters, reading and laying out the map dominates: on shorter
vectors it then slows down less than the original forward, and up to half more backward."""

IM2COL_LIMIT = 15
"""A convolution by matrix products copies its windows side by side. If they take more than so many times its tensors
per thread, oneDNN falls back to a reference implementation, tens of times slower. It happens to few filters with a
large kernel on one thread (`scratchpad_limit_by_tensor_sizes` in oneDNN's src/cpu/gemm_convolution_utils.cpp)."""


def same_library(config: Config, changed: Config | None) -> Config | None:
    """`changed`; None if torch has another library run it, as it does with few small maps, if only it falls back to
    the reference implementation, or if only its windows reach over both edges of a map. Such windows are other work,
    and in oneDNN 3.12 their backward pass corrupts memory (41 × 11 over 20 rows)."""
    if changed is None or (_windows_share(changed) > IM2COL_LIMIT >= _windows_share(config)):
        return None
    if _overhangs(changed) and not _overhangs(config):
        return None
    return changed if _library(changed) == _library(config) else None


def _library(config: Config) -> str:
    """What torch would have run it."""
    axes, groups = len(config["size"]), config.get("groups", 1)
    x = config["batch"], config["channels"], *config["size"]
    weight = config["filters"], config["channels"] // groups, *config["kernel"]
    dilation = config.get("dilation") or (1,) * axes
    return library(x, weight, Window(config["stride"], config["padding"], dilation, False, (0,) * axes), groups)


def _overhangs(config: Config) -> bool:
    return any(n < extent for n, extent in zip(config["size"], _extents(config), strict=True))


def _extents(config: Config) -> list[int]:
    """Extent of a window by axis, with dilation."""
    dilation = config.get("dilation") or (1,) * len(config["size"])
    return [d * (k - 1) + 1 for k, d in zip(config["kernel"], dilation, strict=True)]


def _windows_share(config: Config) -> float:
    """Elements of one image's windows (in a volume, one plane's) over all elements that it reads and writes."""
    out = output_map(config)
    channels, filters = config["channels"] // config.get("groups", 1), config["filters"]
    window = channels * math.prod(config["kernel"])
    tensors = config["batch"] * (config["channels"] * math.prod(config["size"]) + filters * math.prod(out))
    return window * math.prod(out[-2:]) / (tensors + window * filters)


def output_map(config: Config) -> list[int]:
    """Size of a convolution's output, by axis."""
    steps = zip(config["size"], _extents(config), config["stride"], config["padding"], strict=True)
    return [(n + 2 * p - extent) // s + 1 for n, extent, s, p in steps]


def is_pointwise(config: Config) -> bool:
    return {*config["kernel"], *config["stride"]} == {1}


def _lower(config: Config, factor: float) -> Config | None:
    """MANY_IMAGES maps, `factor` times as high."""
    height, *rest = config["size"]
    higher = round(height * factor)
    return {**config, "batch": MANY_IMAGES, "size": (higher, *rest)} if higher else None
