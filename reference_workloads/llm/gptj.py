"""GPT-J 6B from transformers, reading a prompt as in MLPerf inference: 28 layers of 4096, 16 heads of 256.

Attention and feed-forward run side by side on the same input, a quarter of each head is rotated, and the
scores are made explicitly, in float32. By default two of the 28 layers, in their published width, between
the whole tables of words: what fits a small machine. Give `layers=28` for the published model.
"""

from __future__ import annotations

from torch import Tensor, nn
from transformers import GPTJConfig, GPTJForCausalLM

from reference_workloads.llm.serving import Prefill
from reference_workloads.synthetic import tokens


def build(
    batch: int = 1,
    sequence: int = 64,
    layers: int = 2,
    hidden: int = 4096,
    head: int = 256,
    vocabulary: int = 50_400,
) -> tuple[nn.Module, Tensor]:
    config = GPTJConfig(
        vocab_size=vocabulary,
        n_positions=max(2048, sequence),
        n_embd=hidden,
        n_layer=layers,
        n_head=hidden // head,
        rotary_dim=head // 4,
        bos_token_id=vocabulary - 1,
        eos_token_id=vocabulary - 1,
        attn_implementation="eager",
    )
    return Prefill(GPTJForCausalLM(config)), tokens(vocabulary, batch, sequence)
