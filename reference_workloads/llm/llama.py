"""Llama 2 70B (arXiv 2307.09288) and Llama 3 8B (arXiv 2407.21783) from transformers, reading a prompt or making one
token a sequence after `history` cached ones.

By default one of the 70B's 80 layers, two of the 8B's 32, in their published width, between the whole tables of words:
what fits a small machine. Give `layers=80` or `layers=32` for the published model.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from reference_workloads.llm.serving import Decode, Prefill
from reference_workloads.synthetic import tokens

GROUP = 4
"""Query heads of Llama 3 8B that share a key and value head; of Llama 2 70B they are eight."""


def llama(
    layers: int, hidden: int, head: int, group: int, vocabulary: int, theta: float, context: int
) -> LlamaForCausalLM:
    """`group` query heads share a key and value head, `theta` is the base of the rotary positions."""
    heads = hidden // head
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=hidden * 7 // 2,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // group,
        max_position_embeddings=context,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
        attn_implementation="sdpa",
    )
    return LlamaForCausalLM(config)


def llama2_70b_prefill(
    batch: int = 1, sequence: int = 32, layers: int = 1, hidden: int = 8192, head: int = 128, vocabulary: int = 32_000
) -> tuple[nn.Module, Tensor]:
    model = llama(layers, hidden, head, 8, vocabulary, theta=10_000.0, context=4096)
    return Prefill(model), tokens(vocabulary, batch, sequence)


def llama3_8b_prefill(
    batch: int = 1, sequence: int = 64, layers: int = 2, hidden: int = 4096, head: int = 128, vocabulary: int = 128_256
) -> tuple[nn.Module, Tensor]:
    model = llama(layers, hidden, head, GROUP, vocabulary, theta=500_000.0, context=8192)
    return Prefill(model), tokens(vocabulary, batch, sequence)


def llama3_8b_decode(
    batch: int = 1, history: int = 512, layers: int = 2, hidden: int = 4096, head: int = 128, vocabulary: int = 128_256
) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    model = llama(layers, hidden, head, GROUP, vocabulary, theta=500_000.0, context=8192)
    cache = torch.randn(layers, 2, batch, hidden // head // GROUP, history, head)
    return Decode(model), (tokens(vocabulary, batch, 1), cache)
