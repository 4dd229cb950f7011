"""BERT (arXiv 1810.04805) from transformers; batches are padded, with a mask. Base: 109.5 M parameters. Large: with
SQuAD's head, as in MLPerf; sequences of 384."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForQuestionAnswering, BertModel

from reference_workloads.synthetic import lengths, tokens

HEAD = 64

Built = tuple[nn.Module, tuple[()], dict[str, Tensor]]


def base(batch: int = 4, sequence: int = 128, layers: int = 12, hidden: int = 768, vocabulary: int = 30522) -> Built:
    return bert(BertModel, batch, sequence, layers, hidden, vocabulary)


def large(batch: int = 2, sequence: int = 128, layers: int = 24, hidden: int = 1024, vocabulary: int = 30522) -> Built:
    return bert(BertForQuestionAnswering, batch, sequence, layers, hidden, vocabulary)


def bert(
    kind: type[BertModel | BertForQuestionAnswering],
    batch: int,
    sequence: int,
    layers: int,
    hidden: int,
    vocabulary: int,
) -> Built:
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
    return kind(config), (), {"input_ids": tokens(vocabulary, batch, sequence), "attention_mask": mask}
