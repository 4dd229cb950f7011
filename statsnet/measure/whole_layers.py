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
from torch.export import ExportedProgram

OF_SCORES, OF_KEYS = 0, 1
"""What a mask is of (`mask_type`): every score, or the keys of each sequence. Else it is of all scores of each head."""


def taken_apart(program: ExportedProgram) -> ExportedProgram:
    """The same program; where such operators are in it, in their parts."""
    held = {node.target for node in program.graph.nodes} & LAYERS.keys()
    return program.run_decompositions({target: LAYERS[target] for target in held}) if held else program


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
    """As `aten._native_multi_head_attention`, of tensors [sequences, positions, width]. If `need_weights`, the second
    result is the weights, [sequences, positions, positions], or one more axis of heads; else it is empty."""
    q, k, v = (
        F.linear(x, w, b).unflatten(-1, (heads, -1)).transpose(1, 2)
        for x, w, b in zip((query, key, value), in_weight.chunk(3), in_bias.chunk(3), strict=True)
    )
    added = None if mask is None else _added(mask, mask_type, q)
    y = F.scaled_dot_product_attention(q, k, v, added).transpose(1, 2).flatten(2)
    weights = query.new_empty(0)
    if need_weights:
        scores = q @ k.mT / q.shape[-1] ** 0.5
        weights = (scores if added is None else scores + added).softmax(-1)
        weights = weights.mean(1) if average_weights else weights
    return F.linear(y, out_weight, out_bias), weights


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


def _added(mask: Tensor, mask_type: int | None, q: Tensor) -> Tensor:
    """What is added to the scores: nothing, or minus infinity where the mask is true, or not 0."""
    if mask_type == OF_KEYS:
        mask = mask[:, None, None]
    elif mask_type == OF_SCORES:
        mask = mask[None, None]
    return torch.zeros_like(mask, dtype=q.dtype).masked_fill(mask.bool(), float("-inf"))


LAYERS: dict[Any, Callable[..., Any]] = {
    torch.ops.aten._native_multi_head_attention.default: multi_head_attention,
    torch.ops.aten._transformer_encoder_layer_fwd.default: encoder_layer,
}
