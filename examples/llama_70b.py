"""Llama 3 70B by its published configuration, to count without memory:

    statsnet profile examples/llama_70b.py:llama_70b --device meta --dtype bfloat16

Needs transformers (`pip install 'statsnet[models]'`), but no weights and no network.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM


def llama_70b(
    batch: int = 1, sequence: int = 512, layers: int = 80
) -> tuple[nn.Module, tuple[()], dict[str, torch.Tensor]]:
    config = LlamaConfig(
        vocab_size=128_256,
        hidden_size=8192,
        intermediate_size=28_672,
        num_hidden_layers=layers,
        num_attention_heads=64,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
        use_cache=False,
        attn_implementation="sdpa",
    )
    tokens = torch.randint(config.vocab_size, (batch, sequence))
    return LlamaForCausalLM(config), (), {"input_ids": tokens}
