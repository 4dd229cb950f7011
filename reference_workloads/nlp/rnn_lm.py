"""Recurrent language model on WikiText-2: the tied LSTM of 2 x 650 in PyTorch's word_language_model example.

That is the middle size of Zaremba et al. (arXiv 1409.2329) with one table for words in and out. The state
of the batch before comes in as an input. Batches come first here, in the example time does.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.synthetic import tokens

LAYERS = 2


class LanguageModel(nn.Module):
    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.dropout = nn.Dropout(0.5)
        self.lstm = nn.LSTM(width, width, LAYERS, batch_first=True, dropout=0.5)
        self.words = nn.Linear(width, vocabulary)
        self.words.weight = self.embedding.weight
        nn.init.zeros_(self.words.bias)

    def forward(self, words: Tensor, hidden: Tensor, cell: Tensor) -> Tensor:
        """words: (batch, time); hidden, cell: (layers, batch, width). Returns log probabilities."""
        out, _ = self.lstm(self.dropout(self.embedding(words)), (hidden, cell))
        return torch.log_softmax(self.words(self.dropout(out)), dim=-1)


def build(
    batch: int = 20, sequence: int = 35, hidden: int = 650, vocabulary: int = 33_278
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    state = torch.tanh(torch.randn(LAYERS, batch, hidden))
    cell = torch.randn(LAYERS, batch, hidden)
    return LanguageModel(hidden, vocabulary), (tokens(vocabulary, batch, sequence), state, cell)
