"""Operators that stand for a whole layer, taken apart: torch has them for inference, other runtimes have none.

A model in evaluation mode runs them where no gradients are asked for. Its graph does not hold them, because it is
captured with gradients on; but that of a block, which is the operator by itself, does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

OF_KEYS = 1
"""The `mask_type` of a mask of each sequence's keys; others are of scores."""


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    width: int,
    heads: int,
    in_weight: Tensor,
    in_bias: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor]:
    """As `aten._native_multi_head_attention`, of tensors [sequences, positions, width], by what a model's graph holds
    in its place. If `need_weights`, the second result is the weights.

    Of a sequence whose keys are all masked, the operator gives NaN. A model's graph gives numbers, and so does this.
    """
    q = query.transpose(0, 1)
    k = q if key is query else key.transpose(0, 1)
    v = k if value is key else value.transpose(0, 1)
    of_keys, of_scores = None, None
    if mask is not None:
        added = torch.zeros_like(mask, dtype=query.dtype).masked_fill(mask.bool(), float("-inf"))
        if mask_type == OF_KEYS:
            of_keys = added
        else:  # of [sequences, heads, positions, positions], or without the first two axes
            of_scores = added.flatten(0, 1) if added.dim() > 2 else added
    y, weights = F.multi_head_attention_forward(
        q, k, v, width, heads, in_weight, in_bias, None, None, False, 0.0, out_weight, out_bias, training=False,
        key_padding_mask=of_keys, attn_mask=of_scores, need_weights=need_weights, average_attn_weights=average_weights,
    )  # fmt: skip
    return y.transpose(0, 1), query.new_empty(0) if weights is None else weights


def encoder_layer(
    x: Tensor,
    width: int,
    heads: int,
    in_weight: Tensor,
    in_bias: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_1_weight: Tensor,
    norm_1_bias: Tensor,
    norm_2_weight: Tensor,
    norm_2_bias: Tensor,
    wide_weight: Tensor,
    wide_bias: Tensor,
    narrow_weight: Tensor,
    narrow_bias: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """As `aten._transformer_encoder_layer_fwd`, of a tensor [sequences, positions, width]."""

    def attended(x: Tensor) -> Tensor:
        weights = in_weight, in_bias, out_weight, out_bias
        return multi_head_attention(x, x, x, width, heads, *weights, mask, False, True, mask_type)[0]

    def widened(x: Tensor) -> Tensor:
        x = F.linear(x, wide_weight, wide_bias)
        return F.linear(F.gelu(x) if use_gelu else F.relu(x), narrow_weight, narrow_bias)

    def first(x: Tensor) -> Tensor:
        return F.layer_norm(x, (width,), norm_1_weight, norm_1_bias, eps)

    def second(x: Tensor) -> Tensor:
        return F.layer_norm(x, (width,), norm_2_weight, norm_2_bias, eps)

    if norm_first:
        x = x + attended(first(x))
        return x + widened(second(x))
    x = first(x + attended(x))
    return second(x + widened(x))


LAYERS: dict[Any, Callable[..., Any]] = {
    torch.ops.aten._native_multi_head_attention.default: multi_head_attention,
    torch.ops.aten._transformer_encoder_layer_fwd.default: encoder_layer,
}
