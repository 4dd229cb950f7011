"""Copies of tensors whose memory lies as the original's does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def clone(tensor: torch.Tensor) -> torch.Tensor:
    """A copy that keeps strides, expanded axes and whether it needs a gradient."""
    import torch

    plain = tensor.detach()
    if plain.layout is torch.strided and 0 in plain.stride() and plain.numel():
        stored = plain[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in plain.stride())]
        copy = _with_strides(stored).expand(plain.shape)
    else:
        copy = _with_strides(plain)
    return copy.requires_grad_() if tensor.requires_grad else copy


def _with_strides(plain: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides: a view into a larger tensor keeps its gaps, by which kernels are chosen."""
    import torch
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    copy = plain.clone()
    if plain.layout is not torch.strided or plain.is_quantized or is_traceable_wrapper_subclass(plain):
        return copy
    if copy.stride() == plain.stride() or not plain.numel() or _overlaps(plain):
        return copy
    return torch.empty_strided(plain.shape, plain.stride(), dtype=plain.dtype, device=plain.device).copy_(plain)


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether elements may share their memory, as those of windows do."""
    axes = sorted((stride, n) for stride, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1)
    reached = 1
    for stride, n in axes:
        if stride < reached:
            return True
        reached = stride * (n - 1) + reached
    return False
