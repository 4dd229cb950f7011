"""BERT base (arXiv 1810.04805) from transformers; 109.5 M parameters. Batches are padded, with a mask."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from reference_workloads.synthetic import lengths, tokens

HEAD = 64


def build(
    batch: int = 4, sequence: int = 128, layers: int = 12, hidden: int = 768, vocabulary: int = 30522
) -> tuple[nn.Module, tuple[()], dict[str, Tensor]]:
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // HEAD,
        intermediate_size=4 * hidden,
        max_position_embeddings=max(512, sequence),
        attn_implementation="sdpa",
    )
    length = lengths(batch, sequence, (sequence + 1) // 2)
    mask = (torch.arange(sequence) < length[:, None]).long()
    return BertModel(config), (), {"input_ids": tokens(vocabulary, batch, sequence), "attention_mask": mask}
