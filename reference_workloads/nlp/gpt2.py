"""GPT-2 small from transformers; 124.4 M parameters. A whole sequence at once, without a key-value cache."""

from __future__ import annotations

from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from reference_workloads.synthetic import tokens

HEAD = 64


def build(
    batch: int = 2, sequence: int = 128, layers: int = 12, hidden: int = 768, vocabulary: int = 50257
) -> tuple[nn.Module, tuple[()], dict[str, Tensor]]:
    config = GPT2Config(
        vocab_size=vocabulary,
        n_positions=max(1024, sequence),
        n_embd=hidden,
        n_layer=layers,
        n_head=hidden // HEAD,
        bos_token_id=vocabulary - 1,
        eos_token_id=vocabulary - 1,
        use_cache=False,
        attn_implementation="sdpa",
    )
    return GPT2LMHeadModel(config), (), {"input_ids": tokens(vocabulary, batch, sequence)}
