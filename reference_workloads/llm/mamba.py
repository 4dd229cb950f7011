"""Mamba 130M (arXiv 2312.00752) from transformers: 24 layers of 768, state of 16, no attention.

The library's plain path, which needs no kernels of its own: it scans a sequence token by token, so a step is
thousands of small operators, and sequences are short here.
"""

from __future__ import annotations

from torch import Tensor, nn
from transformers import MambaConfig, MambaForCausalLM

from reference_workloads.synthetic import tokens


def build(
    batch: int = 1, sequence: int = 32, layers: int = 24, hidden: int = 768, vocabulary: int = 50_280
) -> tuple[nn.Module, tuple[()], dict[str, Tensor]]:
    config = MambaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        use_mambapy=False,
        use_associative_scan=False,
        use_cache=False,
    )
    return MambaForCausalLM(config), (), {"input_ids": tokens(vocabulary, batch, sequence)}
