"""A convolution's gradients, an operator of its own, in other sizes. Torch does not check them without values: how the
sizes of its operands depend on each other stands here. The convolution itself says how large its output is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from statsnet.blocks.base import Config
from statsnet.blocks.conv import same_library
from statsnet.blocks.convolution_library import Window, library
from statsnet.blocks.operator_call import operands_of

NAME = "convolution_backward"

FEWEST = 16
"""Neither channels nor the innermost axis of a map become fewer than this: kernels run along them in vectors."""

BIAS_SIZES, STRIDE, GROUPS = 3, 4, 9
"""Places of its arguments behind the gradient, the input and the weight. From STRIDE on come those of a Window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """The convolution: (batch, channels, map) of its input, channels of its output, and groups."""

    shape: tuple[int, ...]
    filters: int
    groups: int


def fit(config: Config) -> bool:
    """Whether its operands have the shapes of a convolution's."""
    try:
        own = _changed(config, _layer(config))
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return False
    return own is not None and [o.shape for o in operands_of(own)] == [o.shape for o in operands_of(config)]


def with_map(config: Config, axis: int, length: int) -> Config | None:
    """With about another length of an axis of its output, not that of the channels; None if that is other work."""
    if not fit(config):
        return None
    layer, more = _layer(config), length - operands_of(config)[0].shape[axis]
    if axis > 1:
        window = _window(config)
        stride = window.stride[axis - 2]
        more = round(more / stride) if window.transposed else more * stride
    shape = (*layer.shape[:axis], max(1, layer.shape[axis] + more), *layer.shape[axis + 1 :])
    return _same_work(config, _changed(config, replace(layer, shape=shape)))


def narrowed(config: Config, divisor: int) -> Config | None:
    """With about this many times fewer weights: the larger of input and output channels is halved. Where there are
    groups, half of them go. None if there would be too few, or if that is other work."""
    if not fit(config):
        return None
    layer = _layer(config)
    channels, filters, groups = layer.shape[1], layer.filters, layer.groups
    while divisor > 1:
        if groups > 1:
            kept = _half_of_groups(groups, channels)
            channels, filters, groups = channels * kept // groups, filters * kept // groups, kept
            kept = kept if min(channels, filters) >= FEWEST else 0
        elif channels > filters:
            kept = channels = _half(channels)
        else:
            kept = filters = _half(filters)
        if not kept:
            return None
        divisor //= 2
    shape = (layer.shape[0], channels, *layer.shape[2:])
    return _same_work(config, _changed(config, _Layer(shape=shape, filters=filters, groups=groups)))


def _half(channels: int) -> int:
    """In whole FEWEST, for oneDNN's kernels take no others; 0 if there are too few."""
    return channels // 2 // FEWEST * FEWEST


def _half_of_groups(groups: int, channels: int) -> int:
    """Two at least, for one group is another kernel; where each has one channel, in whole FEWEST; else 0."""
    if groups == channels:
        return _half(groups)
    return groups // 2 if groups % 2 == 0 and groups > 2 else 0


def _layer(config: Config) -> _Layer:
    gradient, x, weight = operands_of(config)
    axes = {len(operand.shape) for operand in (gradient, x, weight)}
    if len(axes) > 1 or min(axes) < 3:
        raise ValueError("the operands are of no convolution")
    return _Layer(shape=x.shape, filters=gradient.shape[1], groups=config["arguments"][GROUPS][1])


def _changed(config: Config, layer: _Layer) -> Config | None:
    gradient, x, weight = operands_of(config)
    channels, groups, arguments = layer.shape[1], layer.groups, list(config["arguments"])
    window = _window(config)
    ends = (channels, layer.filters // groups) if window.transposed else (layer.filters, channels // groups)
    weight_shape = (*ends, *weight.shape[2:])
    out = _output_shape(layer.shape, weight_shape, window, groups)
    if out is None:
        return None
    if arguments[BIAS_SIZES][0] == "numbers":
        arguments[BIAS_SIZES] = ("numbers", (layer.filters,))
    arguments[GROUPS] = ("number", groups)
    shapes = zip((gradient, x, weight), (out, layer.shape, weight_shape), strict=True)
    operands = tuple(operand.reshaped(shape).entry for operand, shape in shapes)
    return {**config, "operands": operands, "arguments": tuple(arguments)}


def _output_shape(x: tuple[int, ...], weight: tuple[int, ...], window: Window, groups: int) -> tuple[int, ...] | None:
    """None if the map is smaller than the window."""
    made: Any = torch.convolution
    with torch.device("meta"):
        try:
            return tuple(made(torch.empty(x), torch.empty(weight), None, *window, groups).shape)
        except RuntimeError:
            return None


def _window(config: Config) -> Window:
    return Window.of(config["arguments"][STRIDE:GROUPS], len(operands_of(config)[1].shape) - 2)


def _same_work(config: Config, changed: Config | None) -> Config | None:
    """`changed`; None if its operands have other layouts, or if it is another convolution's work (`same_library`)."""
    if changed is None or [o.layout for o in operands_of(config)] != [o.layout for o in operands_of(changed)]:
        return None
    if _library(config) != _library(changed):
        return None
    return changed if same_library(_as_convolution(config), _as_convolution(changed)) else None


def _library(config: Config) -> str:
    _, x, weight = operands_of(config)
    return library(x.shape, weight.shape, _window(config), config["arguments"][GROUPS][1])


def _as_convolution(config: Config) -> Config:
    """The block of the convolution; a transposed one's input is the other's output."""
    gradient, x, weight = operands_of(config)
    window = _window(config)
    read, written = (gradient, x) if window.transposed else (x, gradient)
    batch, channels, *size = read.shape
    return {
        "batch": batch, "channels": channels, "size": tuple(size), "filters": written.shape[1],
        "kernel": weight.shape[2:], "stride": window.stride, "padding": window.padding, "dilation": window.dilation,
        "groups": config["arguments"][GROUPS][1],
    }  # fmt: skip
