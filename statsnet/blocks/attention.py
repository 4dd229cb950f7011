"""Scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from statsnet.blocks.base import Block, BlockKind, Config, divided, side_input
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import is_tensor


class Attention(Block):
    """Attention over `keys` positions. If lengths agree, keys and values come in with the queries. Heads lie within
    positions, as a projection writes them, or the other way round (`contiguous`), as rotary embeddings may. One
    projection may have written queries, keys and values of each position in a row (`packed`). Numbers of shape `mask`
    are added to the scores, as `expanded_mask` if that is given. If the mask is `boolean`, torch makes these numbers of
    it first, and other runtimes look for positions that nothing may see. Several heads of queries may share one of
    `kv_heads` heads of keys and values, which then come from other branches. Autograd stacks the gradients of three
    inputs in one tensor. So in an `unstacked` block keys and values also come from other branches; if packed, it is cut
    in three, and the gradients are concatenated."""

    side_input_keys: Tensor | None
    side_input_values: Tensor | None
    side_input_mask: Tensor | None

    def __init__(
        self, batch: int, heads: int, queries: int, keys: int, head_size: int, causal: bool = False,
        contiguous: bool = False, mask: tuple = (), expanded_mask: tuple = (), boolean: bool = False,
        packed: bool = False, kv_heads: int = 0, unstacked: bool = False,
    ) -> None:  # fmt: skip
        together = packed or (queries == keys and not kv_heads and not unstacked)
        lengths = ((heads, queries), (kv_heads or heads, keys))
        of_queries, of_keys = (pair if contiguous else pair[::-1] for pair in lengths)
        if packed:
            super().__init__(batch, queries, *((3 * heads,) if unstacked else (3, heads)), head_size)
        else:
            super().__init__(*((3,) if together else ()), batch, *of_queries, head_size)
        self.side_input_keys = None if together else side_input(batch, *of_keys, head_size)
        self.side_input_values = None if together else side_input(batch, *of_keys, head_size)
        self.causal, self.contiguous, self.parts_axis = causal, contiguous, 2 if packed else 0
        self.shares_heads, self.unstacked = kv_heads > 0, unstacked
        seen = side_input(*mask).detach() if mask else None
        if boolean and seen is not None:
            seen = seen > -1.3  # nearly all positions; no query sees nothing
            seen[..., 0] = True
        self.register_buffer("side_input_mask", seen)
        self.expanded_mask = expanded_mask

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        if self.side_input_keys is not None and self.side_input_values is not None:
            q, k, v = x, self.side_input_keys, self.side_input_values
        else:
            q, k, v = x.chunk(3, 2) if self.unstacked else x.unbind(self.parts_axis)
        if not self.contiguous:
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        mask = self.side_input_mask
        if mask is not None and self.expanded_mask:
            mask = mask.expand(self.expanded_mask)
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal, enable_gqa=self.shares_heads)
        return y.transpose(1, 2)


PLACES = {
    "_scaled_dot_product_flash_attention_for_cpu": (4, 5),
    "_scaled_dot_product_flash_attention": (4, None),
    "_scaled_dot_product_efficient_attention": (6, 3),
    "_scaled_dot_product_cudnn_attention": (6, 3),
    "_scaled_dot_product_attention_math": (5, 3),
    "_scaled_dot_product_fused_attention_overrideable": (5, 3),
}
"""Where ATen's operators take whether they are causal, and a mask."""


class AttentionKind(BlockKind):
    name = "attention"
    module = Attention
    helpers = (side_input,)

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first = motif[0]
        name = base_name(first.op)
        if not name.startswith("_scaled_dot_product") or name.endswith("_backward"):
            return None
        q, k = first.args[0]["shape"], first.args[1]["shape"]
        causal_position, mask_position = PLACES.get(name, (4, 5))
        causal = len(first.args) > causal_position and first.args[causal_position] is True
        lengths = {"queries": q[2], "keys": k[2]}
        config: Config = {"batch": q[0], "heads": q[1], **lengths, "head_size": q[3], "causal": causal}
        if k[1] != q[1]:
            config["kv_heads"] = k[1]
        if q[1] > 1 and all("strides" not in operand for operand in first.args[:3]):
            config["contiguous"] = True
        if q == k and all(_is_packed(operand) for operand in first.args[:3]):
            config["packed"] = True
        mask = first.args[mask_position] if mask_position and len(first.args) > mask_position else None
        if mask is not None and is_tensor(mask) and not causal:
            config |= _mask_of(mask["shape"], mask.get("strides"))
        return config

    def steady(self, config: Config) -> bool:
        """If the block has its own keys and values, its input only changes how they are weighted."""
        return bool(config.get("packed")) or (not config.get("unstacked") and _of_one_length(config))

    def flops(self, config: Config) -> float:
        return 4.0 * config["batch"] * config["heads"] * config["queries"] * config["keys"] * config["head_size"]

    def scaled(self, config: Config, divisor: float) -> Config | None:
        """Whole sequences first, then heads: the score matrix of one head keeps its size. Two heads stay: a single one
        within positions would be contiguous, another kernel class. As many heads as before share keys, if not all."""
        changed = "kv_heads" if config.get("kv_heads", 1) > 1 else "heads"
        batch, heads = config["batch"], config[changed]
        if batch >= divisor:
            return _with_masks(config, batch=round(batch / divisor))
        rest = divided(heads, -(-divisor // batch))
        if rest is None:
            return None
        kept = max(rest, min(heads, 2))
        changes = {"heads": config["heads"] // heads * kept, changed: kept}
        smaller = _with_masks(config, batch=1, **changes)
        return None if smaller == config else smaller


def with_gradients_apart(config: Config) -> Config:
    """The same block, whose queries, keys and values have gradients that nothing stacks."""
    return {**config, "unstacked": True} if _of_one_length(config) else config


def _of_one_length(config: Config) -> bool:
    """Whether queries, keys and values are three tensors of one shape."""
    return config["queries"] == config["keys"] and "kv_heads" not in config


def _is_packed(operand: Any) -> bool:
    """Whether it is a third of what one projection wrote."""
    _, heads, positions, head_size = operand["shape"]
    together = 3 * heads * head_size
    return [*operand.get("strides", ())] == [positions * together, head_size, together, 1]


def _mask_of(shape: Sequence[int], strides: Sequence[int] | None) -> Config:
    """A mask of four axes. What is expanded lies in memory once: there may be gigabytes of it."""
    more = (1,) * (4 - len(shape))
    expanded = (*more, *shape)
    mask = (*more, *(1 if stride == 0 else n for n, stride in zip(shape, strides or shape, strict=True)))
    return {"mask": mask} if mask == expanded else {"mask": mask, "expanded_mask": expanded}


def _with_masks(config: Config, **changed: int) -> Config:
    """With another batch or number of heads, and as many masks where each has its own."""
    smaller = {**config, **changed}
    for name in config.keys() & {"mask", "expanded_mask"}:
        masks = zip(("batch", "heads"), config[name], strict=False)
        smaller[name] = (*(smaller[axis] if n > 1 else 1 for axis, n in masks), *config[name][2:])
    return smaller
