"""Attentional encoder and decoder for headlines (arXiv 1602.06023), sizes of its words-lvt2k on Gigaword.

A bidirectional GRU reads the sentence, a GRU with attention writes the headline word by word. The large
vocabulary trick: a batch is scored against 2,000 words of its own only, which come in as an input.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from reference_workloads.nlp.attention import AdditiveAttention, padded
from reference_workloads.synthetic import lengths, tokens

SOURCE_WORDS, TARGET_WORDS = 119_505, 68_885
CANDIDATES = 2000


class Summarizer(nn.Module):
    def __init__(self, source_words: int, target_words: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.source = nn.Embedding(source_words, embedding)
        self.encoder = nn.GRU(embedding, hidden, batch_first=True, bidirectional=True)
        self.initial = nn.Linear(hidden, hidden)
        self.target = nn.Embedding(target_words, embedding)
        self.attention = AdditiveAttention(hidden, 2 * hidden, hidden)
        self.cell = nn.GRUCell(embedding + 2 * hidden, hidden)
        self.readout = nn.Linear(embedding + 3 * hidden, hidden)
        self.words = nn.Embedding(target_words, hidden)
        self.biases = nn.Embedding(target_words, 1)
        for table in (self.source, self.target, self.words, self.biases):
            nn.init.normal_(table.weight, std=0.05)

    def forward(self, source: Tensor, source_length: Tensor, target: Tensor, candidates: Tensor) -> Tensor:
        """source: (batch, time); target: (batch, steps); candidates: (words,), for the whole batch.

        Returns logits, (batch, steps, words).
        """
        memory, last = self.encoder(self.source(source))
        padding = padded(source_length, source.shape[1])
        state = torch.tanh(self.initial(last[1]))  # the backward direction's, which has read everything
        readouts = self.decode(self.target(target), state, memory, padding)
        return linear(readouts, self.words(candidates), self.biases(candidates).squeeze(-1))

    def decode(self, inputs: Tensor, state: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        keys = self.attention.keys(memory)
        seen: list[Tensor] = []
        for x in inputs.unbind(1):
            context = self.attention(state[:, None], keys, memory, padding).squeeze(1)
            state = self.cell(torch.cat([x, context], dim=-1), state)
            seen.append(torch.cat([x, context, state], dim=-1))
        return torch.tanh(self.readout(torch.stack(seen, dim=1)))


def build(
    batch: int = 16,
    sequence: int = 32,
    embedding: int = 200,
    hidden: int = 400,
    max_words: int = SOURCE_WORDS,
    candidates: int = CANDIDATES,
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """`sequence` is the sentence's length; its headline has a quarter, as the averages of Gigaword."""
    source_words, target_words = min(SOURCE_WORDS, max_words), min(TARGET_WORDS, max_words)
    source, target = tokens(source_words, batch, sequence), tokens(target_words, batch, sequence // 4)
    length = lengths(batch, sequence, (sequence + 1) // 2)
    model = Summarizer(source_words, target_words, embedding, hidden)
    return model, (source, length, target, torch.randperm(target_words)[:candidates])
