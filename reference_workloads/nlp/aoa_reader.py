"""Attention-over-attention reader (arXiv 1607.04423) on the Children's Book Test, named entities.

One bidirectional GRU reads passage and query. Every word of one is compared with every word of the other;
the attention over the query weighs the attentions over the passage, and a candidate's probability is the
sum over its occurrences.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.nlp.attention import padded
from reference_workloads.synthetic import lengths, tokens

CANDIDATES = 10
QUERY = 31
MASKED = -1e4
"""Logit of a masked pair: finite in half precision too, and its exponential is zero."""


class AoAReader(nn.Module):
    def __init__(self, vocabulary: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        nn.init.uniform_(self.embedding.weight, -0.05, 0.05)
        self.dropout = nn.Dropout(0.1)
        self.gru = nn.GRU(embedding, hidden, batch_first=True, bidirectional=True)

    def forward(
        self,
        passage: Tensor,
        passage_length: Tensor,
        query: Tensor,
        query_length: Tensor,
        candidates: Tensor,
    ) -> Tensor:
        """passage, query: (batch, time); candidates: (batch, 10). Returns probabilities, (batch, 10)."""
        pairs = torch.bmm(self.read(passage), self.read(query).transpose(1, 2))
        passage_padding = padded(passage_length, passage.shape[1])
        outside = passage_padding[:, :, None] | padded(query_length, query.shape[1])[:, None]
        pairs = pairs.masked_fill(outside, MASKED)
        over_passage = torch.softmax(pairs, dim=1)
        over_query = torch.softmax(pairs, dim=2).masked_fill(outside, 0.0)
        importance = over_query.sum(1) / passage_length[:, None]
        attention = torch.bmm(over_passage.masked_fill(outside, 0.0), importance[:, :, None])
        occurs = candidates[:, :, None] == passage[:, None]
        return torch.bmm(occurs.to(attention.dtype), attention).squeeze(-1)

    def read(self, words: Tensor) -> Tensor:
        out, _ = self.gru(self.dropout(self.embedding(words)))
        return out


def build(
    batch: int = 4,
    sequence: int = 433,
    embedding: int = 384,
    hidden: int = 256,
    vocabulary: int = 53_063,
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """`sequence` is the passage's length; the data set's average by default, as is the query's."""
    shortest = (sequence + 1) // 2
    passage = tokens(vocabulary, batch, sequence)
    candidates = passage.gather(1, torch.randint(shortest, (batch, CANDIDATES)))
    inputs = (
        passage,
        lengths(batch, sequence, shortest),
        tokens(vocabulary, batch, QUERY),
        lengths(batch, QUERY, QUERY // 2),
        candidates,
    )
    return AoAReader(vocabulary, embedding, hidden), inputs
