"""BERT large (arXiv 1810.04805) from transformers with SQuAD's head, as in MLPerf; sequences of 384."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForQuestionAnswering

from reference_workloads.synthetic import lengths, tokens

HEAD = 64


def build(
    batch: int = 2, sequence: int = 128, layers: int = 24, hidden: int = 1024, vocabulary: int = 30522
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
    inputs = {"input_ids": tokens(vocabulary, batch, sequence), "attention_mask": mask}
    return BertForQuestionAnswering(config), (), inputs
