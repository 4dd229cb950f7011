"""Convolutions in a row, each of which reads the map that the one before it wrote.

Other runtimes keep maps in a layout of their own. They bring a map into it before a convolution and back behind it, but
not between two convolutions of which one reads what the other wrote. In a suite of convolutional networks that happens
to the first and the last map alone, in a proxy of single convolutions to every map.
"""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

from torch import Tensor, nn

from statsnet.blocks.base import Block, BlockKind, Config, side_input
from statsnet.blocks.conv import OF_ACTIVATIONS, Conv, ConvKind, is_pointwise, output_map, same_library
from statsnet.signatures.model import Cluster


class ConvChain(Block):
    """Convolutions over maps, each with what follows it (see Conv). `channels` are those of the map that is read and
    of all that are written; windows and strides are square. Where a map is added, that is the last one of the chain of
    this shape that the convolution does not read and that is not added before, as in a model: so runtimes may write
    the sum in its place. If there is none, it is a side input."""

    maps = True

    def __init__(
        self, batch: int, size: tuple, channels: tuple, kernels: tuple, strides: tuple, paddings: tuple,
        groups: tuple, biases: tuple, norms: tuple, residuals: tuple, activations: tuple,
    ) -> None:  # fmt: skip
        super().__init__(batch, channels[0], *size)
        layers: list[nn.Module] = []
        self.branches: list[int | None] = []
        maps = [(channels[0], *size)]
        for read, written, kernel, stride, padding, group, bias, norm, residual, activation in zip(
            channels[:-1], channels[1:], kernels, strides, paddings, groups, biases, norms, residuals, activations,
            strict=True,
        ):  # fmt: skip
            out = tuple((n + 2 * padding - kernel) // stride + 1 for n in size)
            free = [i for i, shape in enumerate(maps[:-1]) if shape == (written, *out) and i not in self.branches]
            branch = free[-1] if residual and free else None
            self.branches.append(branch)
            layers.append(Conv(
                batch, read, size, written, (kernel,) * 2, (stride,) * 2, (padding,) * 2, groups=group, bias=bias,
                norm=norm, residual=residual and branch is None, activation=activation,
            ))  # fmt: skip
            size = out
            maps.append((written, *size))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        kept = {0: x}
        for i, (layer, branch) in enumerate(zip(self.layers, self.branches, strict=True), 1):
            x = layer.forward(x, None if branch is None else kept[branch])
            if i in self.branches:
                kept[i] = x
        return x


MOST_LAYERS = 64
"""A stranger's file may name any number, and each layer is a module."""


class ConvChainKind(BlockKind):
    name = "conv_chain"
    module = ConvChain
    mixes = True
    helpers = (side_input, Conv)
    words: ClassVar = {"activations": OF_ACTIVATIONS["activation"]}

    def check(self, config: Config) -> None:
        super().check(config)
        if len(config["kernels"]) > MOST_LAYERS:
            raise ValueError(f"{len(config['kernels'])} convolutions in one block")

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        """None: a motif ends at the next convolution (see `chained`)."""
        return None

    def flops(self, config: Config) -> float:
        return sum(CONV.flops(layer) for layer in layers_of(config))

    def scaled(self, config: Config, divisor: float) -> Config | None:
        """Fewer maps, or lower ones of as many, as the first convolution by itself."""
        return _resized_as(CONV.scaled(layers_of(config)[0], divisor), config)

    def narrowed(self, config: Config, divisor: int) -> Config | None:
        """Lower maps of the same width."""
        return _resized_as(CONV.narrowed(layers_of(config)[0], divisor), config)

    def resized(self, config: Config, factor: float) -> Config | None:
        return _resized_as(CONV.resized(layers_of(config)[0], factor), config)


CONV = ConvKind()


def chained(layers: list[Config]) -> Config | None:
    """A chain of these convolutions (see ConvKind); None if one of them does not read what the one before it writes,
    or is none over maps with a square window, stride and padding."""
    if not all(map(_is_square, layers)) or any(map_written(a) != map_read(b) for a, b in pairwise(layers)):
        return None
    first = layers[0]
    return {
        "batch": first["batch"],
        "size": first["size"],
        "channels": (first["channels"], *(layer["filters"] for layer in layers)),
        "kernels": tuple(layer["kernel"][0] for layer in layers),
        "strides": tuple(layer["stride"][0] for layer in layers),
        "paddings": tuple(layer["padding"][0] for layer in layers),
        "groups": tuple(layer.get("groups", 1) for layer in layers),
        "biases": tuple(layer.get("bias", False) for layer in layers),
        "norms": tuple(layer.get("norm", False) for layer in layers),
        "residuals": tuple(layer.get("residual", False) for layer in layers),
        "activations": tuple(layer.get("activation", "") for layer in layers),
    }


Map = tuple[int, ...]
"""Of maps: whether pointwise convolutions read or write them (1 or 2), batch, channels, size. Pointwise convolutions
are only with each other in a chain, for they are made smaller in another way."""


def map_read(layer: Config) -> Map:
    """What a convolution reads. The next one of a chain reads what the one before it writes."""
    return (1 + is_pointwise(layer), layer["batch"], layer["channels"], *layer["size"])


def map_written(layer: Config) -> Map:
    return (1 + is_pointwise(layer), layer["batch"], layer["filters"], *output_map(layer))


def layers_of(config: Config) -> list[Config]:
    """The convolutions of a chain, as ConvKind writes them."""
    layers: list[Config] = []
    size = tuple(config["size"])
    for i, (kernel, stride, padding) in enumerate(
        zip(config["kernels"], config["strides"], config["paddings"], strict=True)
    ):
        layer = {
            "batch": config["batch"],
            "channels": config["channels"][i],
            "size": size,
            "filters": config["channels"][i + 1],
            "kernel": (kernel,) * 2,
            "stride": (stride,) * 2,
            "padding": (padding,) * 2,
            "groups": config["groups"][i],
        }
        layers.append(layer)
        size = tuple(output_map(layer))
    return layers


def _resized_as(first: Config | None, config: Config) -> Config | None:
    """The chain over the maps of its first convolution; None if that has other channels, or if another one of them is
    then none that ConvKind would make."""
    if first is None or [first["channels"], first["filters"]] != list(config["channels"][:2]):
        return None
    changed = {**config, "batch": first["batch"], "size": first["size"]}
    pairs = list(zip(layers_of(config), layers_of(changed), strict=True))
    is_sound = all(min(output_map(new)) > 0 and same_library(old, new) for old, new in pairs)
    return changed if is_sound else None


def _is_square(layer: Config) -> bool:
    sizes = (layer["kernel"], layer["stride"], layer["padding"])
    is_plain = not layer.get("channels_last") and "dilation" not in layer and "output_last_axis" not in layer
    return is_plain and len(layer["size"]) == 2 and all(len(set(size)) == 1 for size in sizes)
