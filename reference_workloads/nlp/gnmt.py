"""GNMT (arXiv 1609.08144) with 4 + 4 LSTM layers of 1024, as in MLPerf training's rnn_translator.

The attention's queries are the first decoder layer's outputs, and nothing is fed back, so that every layer
runs over all positions at once. Source and target share one table. The sentences of a batch have one length,
as in buckets, so nothing is packed; the attention's vector is not normalised.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.nlp.attention import AdditiveAttention, padded
from reference_workloads.synthetic import lengths, tokens

LAYERS = 4
VOCABULARY = 32_320
"""32,000 byte pair merges, padded to a multiple of 8."""


def lstm(inputs: int, hidden: int, bidirectional: bool = False) -> nn.LSTM:
    return nn.LSTM(inputs, hidden, batch_first=True, bidirectional=bidirectional)


class GNMT(nn.Module):
    def __init__(self, hidden: int = 1024, vocabulary: int = VOCABULARY) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.dropout = nn.Dropout(0.2)
        self.encoder1 = lstm(hidden, hidden, bidirectional=True)
        self.encoder2 = lstm(2 * hidden, hidden)
        self.encoders = nn.ModuleList(lstm(hidden, hidden) for _ in range(LAYERS - 2))
        self.attention = AdditiveAttention(hidden, hidden, hidden)
        self.decoder1 = lstm(hidden, hidden)
        self.decoder2 = lstm(2 * hidden, hidden)
        self.decoders = nn.ModuleList(lstm(2 * hidden, hidden) for _ in range(LAYERS - 2))
        self.words = nn.Linear(hidden, vocabulary)

    def forward(self, source: Tensor, source_length: Tensor, target: Tensor) -> Tensor:
        """source: (batch, time); target: (batch, steps). Returns logits, (batch, steps, vocabulary)."""
        memory = self.encode(source)
        return self.words(self.decode(target, memory, padded(source_length, source.shape[1])))

    def encode(self, source: Tensor) -> Tensor:
        x, _ = self.encoder1(self.dropout(self.embedding(source)))
        x, _ = self.encoder2(self.dropout(x))
        for layer in self.encoders:
            out, _ = layer(self.dropout(x))
            x = x + out
        return x

    def decode(self, target: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        x, _ = self.decoder1(self.dropout(self.embedding(target)))
        context = self.attention(x, self.attention.keys(memory), memory, padding)
        x, _ = self.decoder2(self.dropout(torch.cat([x, context], dim=-1)))
        for layer in self.decoders:
            out, _ = layer(self.dropout(torch.cat([x, context], dim=-1)))
            x = x + out
        return x


def build(
    batch: int = 4, sequence: int = 25, hidden: int = 1024, vocabulary: int = VOCABULARY
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """`sequence` is the length of source and target."""
    source, target = tokens(vocabulary, batch, sequence), tokens(vocabulary, batch, sequence)
    return GNMT(hidden, vocabulary), (source, lengths(batch, sequence, (sequence + 1) // 2), target)
