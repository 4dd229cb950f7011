"""Llama 3 8B (arXiv 2407.21783) from transformers, one token a sequence after `history` cached ones.

By default two of the 32 layers, in their published width, between the whole tables of words: what fits a
small machine. Give `layers=32` for the published model.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.llm.llama import llama
from reference_workloads.llm.serving import Decode
from reference_workloads.synthetic import tokens

GROUP = 4


def build(
    batch: int = 1,
    history: int = 512,
    layers: int = 2,
    hidden: int = 4096,
    head: int = 128,
    vocabulary: int = 128_256,
) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    model = llama(layers, hidden, head, GROUP, vocabulary, theta=500_000.0, context=8192)
    cache = torch.randn(layers, 2, batch, hidden // head // GROUP, history, head)
    return Decode(model), (tokens(vocabulary, batch, 1), cache)
