"""Llama 2 70B (arXiv 2307.09288) from transformers, reading a prompt: 80 layers of 8192, 8 key-value heads.

By default one of the 80 layers, in their published width, between the whole tables of words: what fits a
small machine. Give `layers=80` for the published model.
"""

from __future__ import annotations

from torch import Tensor, nn

from reference_workloads.llm.llama import llama
from reference_workloads.llm.serving import Prefill
from reference_workloads.synthetic import tokens


def build(
    batch: int = 1,
    sequence: int = 32,
    layers: int = 1,
    hidden: int = 8192,
    head: int = 128,
    vocabulary: int = 32_000,
) -> tuple[nn.Module, Tensor]:
    model = llama(layers, hidden, head, 8, vocabulary, theta=10_000.0, context=4096)
    return Prefill(model), tokens(vocabulary, batch, sequence)
