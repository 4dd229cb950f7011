"""Mixtral 8x7B (arXiv 2401.04088) from transformers, one token a sequence after `history` cached ones.

Each layer has eight feed-forward experts, of which a router picks two for each token. The chosen experts'
weights are gathered for each token (the library's `batched_mm`): shapes do not depend on the choice, and a
few tokens at once are what this is made for. By default one of the 32 layers, in its published width, between
the whole tables of words: what fits a small machine. Give `layers=32` for the published model.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import MixtralConfig, MixtralForCausalLM

from reference_workloads.llm.serving import Decode
from reference_workloads.synthetic import tokens

GROUP = 4
"""Query heads that share a key and value head."""


def build(
    batch: int = 1,
    history: int = 128,
    layers: int = 1,
    hidden: int = 4096,
    head: int = 128,
    vocabulary: int = 32_000,
) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    heads = hidden // head
    config = MixtralConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=hidden * 7 // 2,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // GROUP,
        head_dim=head,
        max_position_embeddings=32_768,
        rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
        attn_implementation="sdpa",
        experts_implementation="batched_mm",
    )
    cache = torch.randn(layers, 2, batch, heads // GROUP, history, head)
    return Decode(MixtralForCausalLM(config)), (tokens(vocabulary, batch, 1), cache)
