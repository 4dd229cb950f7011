"""Llama 2 and 3 from transformers: what their sizes have in common."""

from __future__ import annotations

from transformers import LlamaConfig, LlamaForCausalLM


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
