"""Translation with three LSTM layers a side and attention, sizes of Fathom's seq2seq (arXiv 1608.06581).

Fathom's code is TensorFlow's translation tutorial with layers of 256: at each step the decoder's input is
the word and the last context, and the attention's query is the state of all layers. Training scores 512
sampled words besides the right one, inference all 40,000. Nothing is masked, since batches come in buckets.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from reference_workloads.nlp.attention import AdditiveAttention
from reference_workloads.synthetic import tokens, zipf_ids

LAYERS = 3
SAMPLED = 512


class Seq2Seq(nn.Module):
    def __init__(self, hidden: int, vocabulary: int) -> None:
        super().__init__()
        self.source = nn.Embedding(vocabulary, hidden, sparse=True)
        self.target = nn.Embedding(vocabulary, hidden, sparse=True)
        self.encoder = nn.LSTM(hidden, hidden, LAYERS, batch_first=True)
        self.merge = nn.Linear(2 * hidden, hidden)
        self.cells = nn.ModuleList(nn.LSTMCell(hidden, hidden) for _ in range(LAYERS))
        self.attention = AdditiveAttention(2 * LAYERS * hidden, hidden, hidden)
        self.out = nn.Linear(2 * hidden, hidden)
        self.words = nn.Embedding(vocabulary, hidden, sparse=True)
        self.biases = nn.Embedding(vocabulary, 1, sparse=True)
        for table in (self.source, self.target, self.words, self.biases):
            nn.init.normal_(table.weight, std=0.05)

    def forward(self, source: Tensor, target: Tensor, labels: Tensor, sampled: Tensor) -> Tensor:
        """source: (batch, time); target, labels: (batch, steps); sampled: (words,), for the whole batch.

        Returns logits, in training (batch, steps, 1 + words) with the label's first, else those of all words.
        """
        memory, (hidden, cell) = self.encoder(self.source(source))
        outputs = self.decode(self.target(target), memory, list(hidden), list(cell))
        if self.training:
            return self.score_sampled(outputs, labels, sampled)
        return linear(outputs, self.words.weight, self.biases.weight.squeeze(-1))

    def decode(self, inputs: Tensor, memory: Tensor, hidden: list[Tensor], cell: list[Tensor]) -> Tensor:
        keys = self.attention.keys(memory)
        context = torch.zeros_like(memory[:, 0])
        seen: list[Tensor] = []
        for x in inputs.unbind(1):
            x = self.merge(torch.cat([x, context], dim=-1))
            for i, layer in enumerate(self.cells):
                hidden[i], cell[i] = layer(x, (hidden[i], cell[i]))
                x = hidden[i]
            query = torch.cat([*cell, *hidden], dim=-1)
            context = self.attention(query[:, None], keys, memory).squeeze(1)
            seen.append(torch.cat([x, context], dim=-1))
        return self.out(torch.stack(seen, dim=1))

    def score_sampled(self, outputs: Tensor, labels: Tensor, sampled: Tensor) -> Tensor:
        # One lookup for both: the sparse gradients of two would have to be added.
        words = torch.cat([labels.flatten(), sampled])
        vectors, biases = self.words(words), self.biases(words).squeeze(-1)
        right = labels.numel()
        own = (outputs * vectors[:right].view_as(outputs)).sum(-1) + biases[:right].view_as(labels)
        return torch.cat([own[..., None], linear(outputs, vectors[right:], biases[right:])], dim=-1)


def build(
    batch: int = 16, sequence: int = 25, hidden: int = 256, vocabulary: int = 40_000
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """`sequence` is the target's length; the source has four fifths, as in the code's large buckets."""
    source = tokens(vocabulary, batch, sequence * 4 // 5)
    words = tokens(vocabulary, batch, sequence + 1)
    sampled = zipf_ids(vocabulary, (SAMPLED,), exponent=1.0)
    target, labels = words[:, :-1].contiguous(), words[:, 1:].contiguous()
    return Seq2Seq(hidden, vocabulary), (source, target, labels, sampled)
