"""Convolutional text classifier for IMDB (after arXiv 1412.1058), the default model of MLPerf training v0.5.

As in MLPerf's code: an embedding of 1024, two convolutions of 1024 over 3 and 4 words side by side, ELU,
maximum over time, softmax of two classes. Its LSTM variant is another model. Reviews have one length here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import elu, pad

from reference_workloads.synthetic import tokens

SIZES = (3, 4)
CLASSES = 2


class Sentiment(nn.Module):
    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.convolutions = nn.ModuleList(nn.Conv1d(width, width, size) for size in SIZES)
        self.classes = nn.Linear(len(SIZES) * width, CLASSES)
        for module in (self.embedding, *self.convolutions, self.classes):
            nn.init.xavier_uniform_(module.weight)
        for module in (*self.convolutions, self.classes):
            nn.init.zeros_(module.bias)

    def forward(self, words: Tensor) -> Tensor:
        """(batch, time) -> probabilities, (batch, 2)."""
        x = self.embedding(words).transpose(1, 2)
        pooled = [
            elu(convolution(pad(x, (size // 2, (size - 1) // 2)))).amax(-1)
            for convolution, size in zip(self.convolutions, SIZES, strict=True)
        ]
        return torch.softmax(self.classes(torch.cat(pooled, dim=-1)), dim=-1)


def build(batch: int = 8, sequence: int = 230, hidden: int = 1024, vocabulary: int = 5147) -> tuple[nn.Module, Tensor]:
    """`sequence` is the number of words in a review, the data set's average by default."""
    return Sentiment(vocabulary, hidden), tokens(vocabulary, batch, sequence)
