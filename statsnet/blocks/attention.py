"""Scaled dot-product attention."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from statsnet.blocks.base import Block, BlockKind, Config, divided, side_input
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster


class Attention(Block):
    """Attention over `keys` positions. If lengths agree, keys and values come in with the queries. Heads lie within
    positions, as a projection writes them, or the other way round (`contiguous`), as rotary embeddings may."""

    def __init__(
        self, batch: int, heads: int, queries: int, keys: int, head_size: int, causal: bool = False,
        contiguous: bool = False,
    ) -> None:  # fmt: skip
        together = queries == keys
        of_queries, of_keys = ((heads, n) if contiguous else (n, heads) for n in (queries, keys))
        super().__init__(3 if together else 1, batch, *of_queries, head_size)
        self.side_input_keys_values = None if together else side_input(2, batch, *of_keys, head_size)
        self.causal, self.contiguous = causal, contiguous

    def forward(self, x: Tensor) -> Tensor:
        q, *rest = self.enter(x).unbind(0)
        k, v = rest if self.side_input_keys_values is None else self.side_input_keys_values.unbind(0)
        if not self.contiguous:
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2)


class AttentionKind(BlockKind):
    name = "attention"
    module = Attention
    helpers = (side_input,)

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first = motif[0]
        if not base_name(first.op).startswith("_scaled_dot_product"):
            return None
        q, k = first.args[0]["shape"], first.args[1]["shape"]
        causal_position = {
            "_scaled_dot_product_flash_attention_for_cpu": 4,
            "_scaled_dot_product_flash_attention": 4,
            "_scaled_dot_product_efficient_attention": 6,
            "_scaled_dot_product_cudnn_attention": 6,
        }.get(base_name(first.op), 4)
        causal = len(first.args) > causal_position and first.args[causal_position] is True
        lengths = {"queries": q[2], "keys": k[2]}
        config = {"batch": q[0], "heads": q[1], **lengths, "head_size": q[3], "causal": causal}
        contiguous = q[1] > 1 and all("strides" not in operand for operand in first.args[:3])
        return {**config, "contiguous": True} if contiguous else config

    def steady(self, config: Config) -> bool:
        """If the block has its own keys and values, its input only changes how they are weighted."""
        return bool(config["queries"] == config["keys"])

    def flops(self, config: Config) -> float:
        return 4.0 * config["batch"] * config["heads"] * config["queries"] * config["keys"] * config["head_size"]

    def scaled(self, config: Config, divisor: float) -> Config | None:
        """Whole sequences first, then heads: the score matrix of one head keeps its size. Two heads stay: a single one
        within positions would be contiguous, another kernel class."""
        batch, heads = config["batch"], config["heads"]
        if batch >= divisor:
            return {**config, "batch": round(batch / divisor)}
        rest = divided(heads, -(-divisor // batch))
        if rest is None:
            return None
        smaller = {**config, "batch": 1, "heads": max(rest, min(heads, 2))}
        return None if smaller == config else smaller
