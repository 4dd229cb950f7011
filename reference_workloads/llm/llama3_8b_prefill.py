"""Llama 3 8B (arXiv 2407.21783) from transformers, reading a prompt: 32 layers of 4096, 8 key-value heads.

By default two of the 32 layers, in their published width, between the whole tables of words: what fits a
small machine. Give `layers=32` for the published model.
"""

from __future__ import annotations

from torch import Tensor, nn

from reference_workloads.llm.llama import llama
from reference_workloads.llm.serving import Prefill
from reference_workloads.synthetic import tokens


def build(
    batch: int = 1,
    sequence: int = 64,
    layers: int = 2,
    hidden: int = 4096,
    head: int = 128,
    vocabulary: int = 128_256,
) -> tuple[nn.Module, Tensor]:
    model = llama(layers, hidden, head, 4, vocabulary, theta=500_000.0, context=8192)
    return Prefill(model), tokens(vocabulary, batch, sequence)
