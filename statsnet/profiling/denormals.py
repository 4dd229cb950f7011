"""Results that are denormal numbers: nearer to zero than 1e-38, where many processors compute up to a hundred times
slower."""

from __future__ import annotations

from typing import Any

import torch

SAMPLES = 64
"""So many values are looked at in a tensor, spread over it: a look takes microseconds."""

_SLOW = (torch.float32, torch.float64, torch.bfloat16)
"""A processor computes with float16 numbers as float32, where its denormal ones are normal."""


def denormal_share(results: list[Any]) -> float:
    """The largest share of denormal numbers among the values of a tensor of these."""
    return max(map(_share, results), default=0.0)


def _share(tensor: Any) -> float:
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.dtype not in _SLOW or not tensor.numel():
        return 0.0
    if tensor.layout is not torch.strided or tensor.device.type != "cpu":
        return 0.0
    if tensor.is_nested or tensor._is_zerotensor():  # the latter is a derivative that is zero, without memory
        return 0.0
    if not _is_whole(tensor):
        return 0.0
    count = min(SAMPLES, tensor.numel())
    sizes = tensor.detach().as_strided((count,), (tensor.numel() // count,)).abs()
    return float(((sizes > 0) & (sizes < torch.finfo(tensor.dtype).tiny)).sum()) / count


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether its values lie one after another. Others are mostly views of a result that was looked at before."""
    in_channels = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    return in_channels or tensor.is_contiguous()
