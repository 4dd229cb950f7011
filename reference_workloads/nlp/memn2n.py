"""End-to-end memory network (arXiv 1503.08895) for the bAbI questions, the model trained on all 20 tasks.

Three hops over the last 50 sentences, width 50, 177 words, position and temporal encoding. Adjacent hops
share a table: what one hop answers with is what the next one compares with.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from reference_workloads.nlp.attention import padded
from reference_workloads.synthetic import lengths, tokens

HOPS = 3
WORDS = 11
"""Words of the longest sentence, to which all are padded."""

VOCABULARY = 177


def position_encoding(length: int, width: int) -> Tensor:
    """Section 4.1: (1 - j / J) - (k / d) (1 - 2 j / J) at word j, element k."""
    j = torch.arange(1, length + 1)[:, None] / length
    k = torch.arange(1, width + 1) / width
    return (1 - j) - k * (1 - 2 * j)


class MemN2N(nn.Module):
    encoding: Tensor

    def __init__(self, memories: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(VOCABULARY, width, padding_idx=0) for _ in range(HOPS + 1))
        self.times = nn.ParameterList(torch.empty(memories, width) for _ in range(HOPS + 1))
        for table, time in zip(self.tables, self.times, strict=True):
            nn.init.normal_(table.weight, std=0.1)
            nn.init.normal_(time, std=0.1)
            with torch.no_grad():
                table.weight[0] = 0.0
        self.register_buffer("encoding", position_encoding(WORDS, width), persistent=False)

    def forward(self, story: Tensor, question: Tensor) -> Tensor:
        """story: (batch, memories, words); question: (batch, words). Returns logits, (batch, vocabulary)."""
        state = self.embed(0, question)
        memory = self.embed(0, story) + self.times[0]
        for hop in range(1, HOPS + 1):
            output = self.embed(hop, story) + self.times[hop]
            weights = torch.softmax(torch.bmm(memory, state[:, :, None]).squeeze(-1), dim=-1)
            state = state + torch.bmm(weights[:, None], output).squeeze(1)
            memory = output
        return linear(state, self.tables[HOPS].weight)

    def embed(self, table: int, words: Tensor) -> Tensor:
        """A vector for each sentence."""
        return (self.tables[table](words) * self.encoding).sum(-2)


def sentences(count: int) -> Tensor:
    """(count, words) of word 1 and up, with 0 after each sentence's end."""
    words = 1 + tokens(VOCABULARY - 1, count, WORDS)
    return words.masked_fill(padded(lengths(count, WORDS, 4), WORDS), 0)


def build(batch: int = 256, sequence: int = 50, hidden: int = 50) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """`sequence` is the number of sentences in the memory."""
    story = sentences(batch * sequence).view(batch, sequence, WORDS)
    return MemN2N(sequence, hidden), (story, sentences(batch))
