"""Which library torch has run a convolution in float32 on CPUs: a loop of its own for few small maps, else oneDNN."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from statsnet.blocks.base import per_axis

Shape = tuple[int, ...]


class Window(NamedTuple):
    """How a convolution goes over its maps, in torch's order."""

    stride: Shape
    padding: Shape
    dilation: Shape
    transposed: bool
    output_padding: Shape

    @classmethod
    def of(cls, arguments: Sequence[tuple[Any, ...]], axes: int) -> Window:
        """From an operator's arguments in a block's configuration (blocks/operator_call.py). Torch takes one number
        for all axes, too."""
        stride, padding, dilation, transposed, output_padding = (value for _, value in arguments)
        stride, padding, dilation, output_padding = (
            per_axis(value, axes) for value in (stride, padding, dilation, output_padding)
        )
        return cls(stride, padding, dilation, bool(transposed), output_padding)


def library(x: Shape, weight: Shape, window: Window, groups: int) -> str:
    """Torch's name for it, such as "Mkldnn" or "Slow2d", by the shapes of the input and of the weight; empty where
    torch does not tell."""
    return _library(x, weight, window, groups, torch.get_num_threads())


@lru_cache(maxsize=4096)
def _library(x: Shape, weight: Shape, window: Window, groups: int, _threads: int) -> str:
    choose: Any = getattr(torch._C, "_select_conv_backend", None)
    if choose is None:
        return ""
    if len(x) == 3:  # as torch does: it would copy the input first
        x, weight = (*x[:2], 1, x[2]), (*weight[:2], 1, weight[2])
        ones = zip((1, 0, 1, 0), (window.stride, window.padding, window.dilation, window.output_padding), strict=True)
        stride, padding, dilation, output_padding = ((one, *value) for one, value in ones)
        window = Window(stride, padding, dilation, window.transposed, output_padding)
    element = torch.empty(1, device="cpu", dtype=torch.float32)  # a user may have set other defaults
    try:
        return str(choose(element.expand(x), element.expand(weight), None, *window, groups)).rpartition(".")[2]
    except RuntimeError:  # of a map that is smaller than the window
        return ""
