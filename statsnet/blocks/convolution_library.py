"""Which library torch has run a convolution on CPUs: one of its own loops for few small maps, oneDNN for others."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

Window = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], bool, tuple[int, ...]]
"""Stride, padding, dilation, whether it is transposed, output padding."""


@lru_cache(maxsize=4096)
def library(x: tuple[int, ...], weight: tuple[int, ...], window: Window, groups: int) -> str:
    """Torch's name for it, such as "Mkldnn" or "Slow2d", by the shapes of the input and of the weight; empty where
    torch does not tell."""
    element = torch.empty(1)
    choose: Any = getattr(torch._C, "_select_conv_backend", None)
    if choose is None:
        return ""
    try:
        return str(choose(element.expand(x), element.expand(weight), None, *window, groups)).rpartition(".")[2]
    except RuntimeError:  # of a map that is smaller than the window
        return ""
