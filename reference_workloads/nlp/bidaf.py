"""Bidirectional attention flow (arXiv 1611.01603) on SQuAD, layers and sizes of allenai/bi-att-flow.

Words are fixed GloVe vectors (a buffer, not parameters) beside a convolution over 16 characters; a highway
network, a shared LSTM, attention in both directions, two LSTM layers, and one more LSTM for the answer's end.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from reference_workloads.nlp.attention import padded
from reference_workloads.synthetic import lengths, tokens, zipf_ids

WORD, CHARACTER = 100, 8
"""Widths of the vectors of words and of characters."""

LETTERS = 16
CHARACTERS = 262
QUESTION = 30
MASKED = -1e4
"""Logit of padding: finite in half precision too, and its exponential is zero."""


def lstm(inputs: int, hidden: int, layers: int = 1) -> nn.LSTM:
    dropout = 0.2 if layers > 1 else 0.0
    return nn.LSTM(inputs, hidden, layers, batch_first=True, bidirectional=True, dropout=dropout)


class Highway(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.transform = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(x))
        return gate * torch.relu(self.transform(x)) + (1 - gate) * x


class BiDAF(nn.Module):
    vectors: Tensor

    def __init__(self, vocabulary: int, hidden: int) -> None:
        super().__init__()
        self.register_buffer("vectors", 0.4 * torch.randn(vocabulary, WORD), persistent=False)
        self.characters = nn.Embedding(CHARACTERS, CHARACTER)
        self.convolution = nn.Conv1d(CHARACTER, hidden, 5)
        width, both = WORD + hidden, 2 * hidden
        self.highway = nn.Sequential(Highway(width), Highway(width))
        self.dropout = nn.Dropout(0.2)
        self.contextual = lstm(width, hidden)
        self.context_score = nn.Linear(both, 1)
        self.question_score = nn.Linear(both, 1, bias=False)
        self.product_score = nn.Parameter(torch.randn(both) * both**-0.5)
        self.modeling = lstm(4 * both, hidden, layers=2)
        self.start = nn.Linear(5 * both, 1)
        self.ending = lstm(7 * both, hidden)
        self.end = nn.Linear(5 * both, 1)

    def forward(
        self,
        context: Tensor,
        context_letters: Tensor,
        context_length: Tensor,
        question: Tensor,
        question_letters: Tensor,
        question_length: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Words: (batch, time), their letters: (batch, time, 16). Returns the logits of an answer's first
        and last word, (batch, time) each.
        """
        padding = padded(context_length, context.shape[1])
        h, u = self.read(context, context_letters), self.read(question, question_letters)
        flow = self.attend(h, u, padding, padded(question_length, question.shape[1]))
        modeled, _ = self.modeling(self.dropout(flow))
        start = self.answer(self.start, modeled, flow, padding)
        first = torch.bmm(torch.softmax(start, dim=-1)[:, None], modeled)
        rest = torch.cat([flow, modeled, first.expand_as(modeled), modeled * first], dim=-1)
        ending, _ = self.ending(self.dropout(rest))
        return start, self.answer(self.end, ending, flow, padding)

    def read(self, words: Tensor, letters: Tensor) -> Tensor:
        characters = self.dropout(self.characters(letters)).flatten(0, 1).transpose(1, 2)
        spelled = torch.relu(self.convolution(characters)).amax(-1).unflatten(0, words.shape)
        x = torch.cat([spelled, functional.embedding(words, self.vectors)], dim=-1)
        out, _ = self.contextual(self.dropout(self.highway(x)))
        return out

    def attend(self, h: Tensor, u: Tensor, padding: Tensor, question_padding: Tensor) -> Tensor:
        """h: (batch, time, 2d); u: (batch, question, 2d). Returns (batch, time, 8d)."""
        products = torch.bmm(h * self.product_score, u.transpose(1, 2))
        scores = products + self.context_score(h) + self.question_score(u).transpose(1, 2)
        scores = scores.masked_fill(question_padding[:, None], MASKED)
        to_question = torch.bmm(torch.softmax(scores, dim=-1), u)
        best = scores.amax(-1).masked_fill(padding, MASKED)
        to_context = torch.bmm(torch.softmax(best, dim=-1)[:, None], h)
        return torch.cat([h, to_question, h * to_question, h * to_context], dim=-1)

    def answer(self, layer: nn.Module, x: Tensor, flow: Tensor, padding: Tensor) -> Tensor:
        logits = layer(self.dropout(torch.cat([x, flow], dim=-1))).squeeze(-1)
        return logits.masked_fill(padding, MASKED)


def letters(batch: int, words: int) -> Tensor:
    return zipf_ids(CHARACTERS, (batch, words, LETTERS), exponent=1.0)


def build(
    batch: int = 4, sequence: int = 400, hidden: int = 100, vocabulary: int = 400_000
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """`sequence` is the length of the context in words; `vocabulary` are GloVe's 400,000 words."""
    inputs = (
        tokens(vocabulary, batch, sequence),
        letters(batch, sequence),
        lengths(batch, sequence, (sequence + 1) // 2),
        tokens(vocabulary, batch, QUESTION),
        letters(batch, QUESTION),
        lengths(batch, QUESTION, QUESTION // 2),
    )
    return BiDAF(vocabulary, hidden), inputs
