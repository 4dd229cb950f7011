"""What the recurrent readers and translators share: padding masks and additive attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def padded(length: Tensor, longest: int) -> Tensor:
    """(batch,) lengths -> (batch, longest), true at the positions past each length."""
    return torch.arange(longest, device=length.device) >= length[:, None]


class AdditiveAttention(nn.Module):
    """Attention of Bahdanau et al. (arXiv 1409.0473): a position's score is v . tanh(W query + U memory)."""

    def __init__(self, query: int, memory: int, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(query, width, bias=False)
        self.memory = nn.Linear(memory, width)
        self.score = nn.Linear(width, 1, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        """The memory's part of the scores, which is the same for every query."""
        return self.memory(memory)

    def forward(self, query: Tensor, keys: Tensor, memory: Tensor, padding: Tensor | None = None) -> Tensor:
        """query: (batch, queries, q); keys, memory: (batch, time, .); padding: (batch, time).

        Returns the weighted memory, (batch, queries, m).
        """
        sums = self.query(query)[:, :, None] + keys[:, None]
        scores = self.score(torch.tanh(sums)).squeeze(-1)
        if padding is not None:
            scores = scores.masked_fill(padding[:, None], float("-inf"))
        return torch.bmm(torch.softmax(scores, dim=-1), memory)
