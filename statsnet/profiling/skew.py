"""How unevenly an embedding's rows are read: this decides how often reads hit the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from statsnet.signatures.model import Skew

_INDEX_ARGUMENT = {"embedding": 1, "embedding_bag": 1, "_embedding_bag": 1, "_embedding_bag_forward_only": 1}


def index_skew(func: Any, args: tuple[Any, ...]) -> Skew | None:
    """Skew of the index tensor of an embedding call; None for other operators and for fake tensors."""
    position = _INDEX_ARGUMENT.get(str(func).split(".")[1] if "." in str(func) else "")
    if position is None or len(args) <= position:
        return None
    indices = args[position]
    if not isinstance(indices, torch.Tensor) or type(indices) is not torch.Tensor or indices.numel() == 0:
        return None
    if indices.device.type == "meta":
        return None
    return skew_of(indices.detach().cpu().numpy().reshape(-1))


def two_digits(value: float) -> float:
    """With more digits, a share of a batch tells the batch apart from all others."""
    return float(f"{value:.2g}")


def skew_of(indices: np.ndarray) -> Skew:
    """Share of distinct indices, share of reads that the most frequent 1 % of the distinct rows take, and
    the exponent of a Zipf law fitted to frequency against rank (least squares on logarithms; 0 is uniform).
    """
    counts = np.sort(np.unique(indices, return_counts=True)[1])[::-1].astype(float)
    top = max(1, round(len(counts) * 0.01))
    exponent = 0.0
    repeated = counts[counts > 1]
    if len(repeated) >= 3:
        ranks = np.log(np.arange(1, len(repeated) + 1))
        exponent = max(0.0, -float(np.polyfit(ranks, np.log(repeated), 1)[0]))
    return Skew(
        distinct_share=two_digits(len(counts) / indices.size),
        top1pct_share=two_digits(float(counts[:top].sum() / indices.size)),
        zipf=round(exponent, 1),
    )
