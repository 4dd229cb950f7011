"""Architecture search on Penn Treebank, ENAS (arXiv 1802.03268), sizes of the authors' search script.

One step of both networks: the language model whose cell of 12 nodes uses some of the shared weights, and the
controller that gives the log probabilities of the decisions behind the cell. What a controller would sample
is fixed to the cell that the authors found, so that every step computes the same. Each pair of nodes has a
matrix, and the unused ones get a gradient of zero, as in the authors' code.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, linear

from reference_workloads.synthetic import tokens

ACTIVATIONS = (torch.tanh, torch.relu, nn.Identity(), torch.sigmoid)
FIRST = 0
NODES = ((0, 0), (1, 1), (2, 1), (2, 0), (2, 0), (5, 1), (1, 0), (6, 1), (8, 1), (8, 1), (8, 1))
"""The node that each later node reads, and its activation; `FIRST` is the first node's activation."""

OPEN = [node for node in range(len(NODES) + 1) if node not in {source for source, _ in NODES}]
"""Nodes that no other one reads: the cell's output is their mean."""

CONTROLLER = 100
TEMPERATURE, TANH = 5.0, 2.5


class Child(nn.Module):
    """The language model; its `pairs` are the weights that all cells of the search share."""

    def __init__(self, vocabulary: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.first = nn.Parameter(torch.empty(2 * hidden, 2 * hidden))
        self.pairs = nn.ParameterList(torch.empty(nodes, hidden, 2 * hidden) for nodes in range(1, len(NODES) + 1))
        for weight in (self.embedding.weight, self.first, *self.pairs):
            nn.init.uniform_(weight, -0.04, 0.04)
        self.norms = nn.ModuleList(nn.BatchNorm1d(2 * hidden) for _ in range(len(NODES) + 1))
        self.norm = nn.BatchNorm1d(hidden)

    def forward(self, words: Tensor, state: Tensor) -> Tensor:
        """words: (batch, time); state: (batch, hidden). Returns logits, (batch, time, vocabulary)."""
        weights = [pair[source] for pair, (source, _) in zip(self.pairs, NODES, strict=True)]
        x = self.embedding(words)
        keep = None
        if self.training:  # one mask for all time steps
            ones = torch.ones_like(state)
            x = x * dropout(ones, 0.75)[:, None]
            keep = dropout(ones, 0.25)
        outputs: list[Tensor] = []
        for inputs in x.unbind(1):
            state = self.cell(inputs, state, keep, weights)
            outputs.append(state)
        return linear(torch.stack(outputs, dim=1), self.embedding.weight)

    def cell(self, x: Tensor, state: Tensor, keep: Tensor | None, weights: list[Tensor]) -> Tensor:
        kept = state if keep is None else state * keep
        nodes = [self.node(0, torch.cat([x, kept], dim=-1) @ self.first, state, FIRST)]
        for index, (source, activation) in enumerate(NODES):
            previous = nodes[source]
            kept = previous if keep is None else previous * keep
            nodes.append(self.node(index + 1, kept @ weights[index], previous, activation))
        return self.norm(torch.stack([nodes[index] for index in OPEN]).mean(0))

    def node(self, index: int, products: Tensor, previous: Tensor, activation: int) -> Tensor:
        candidate, gate = self.norms[index](products).chunk(2, dim=-1)
        return previous + torch.sigmoid(gate) * (ACTIVATIONS[activation](candidate) - previous)


class Controller(nn.Module):
    """An LSTM that decides, node by node, which earlier node to read and how to activate it."""

    def __init__(self) -> None:
        super().__init__()
        self.begin = nn.Parameter(torch.empty(1, CONTROLLER).uniform_(-0.1, 0.1))
        self.lstm = nn.LSTMCell(CONTROLLER, CONTROLLER)
        self.activations = nn.Embedding(len(ACTIVATIONS), CONTROLLER)
        self.activation = nn.Linear(CONTROLLER, len(ACTIVATIONS), bias=False)
        self.key = nn.Linear(CONTROLLER, CONTROLLER, bias=False)
        self.query = nn.Linear(CONTROLLER, CONTROLLER, bias=False)
        self.score = nn.Linear(CONTROLLER, 1, bias=False)

    def forward(self) -> Tensor:
        """Log probabilities of the fixed cell's decisions, (1, 23)."""
        h = c = torch.zeros_like(self.begin)
        inputs = self.begin
        anchors: list[Tensor] = []
        keys: list[Tensor] = []
        chosen: list[Tensor] = []
        for node, (source, activation) in enumerate(((0, FIRST), *NODES)):
            h, c = self.lstm(inputs, (h, c))
            inputs = self.begin
            if node:
                scores = self.score(torch.tanh(self.query(h) + torch.cat(keys))).T
                distance = torch.arange(node, 0, -1, device=h.device)
                chosen.append(self.decide(scores, source, distance.square() / 12))
                inputs = anchors[source] / (0.1 + node - source)
            anchors.append(h)
            keys.append(self.key(h))
            h, c = self.lstm(inputs, (h, c))
            chosen.append(self.decide(self.activation(h), activation))
            inputs = self.activations.weight[activation : activation + 1]
        return torch.stack(chosen, dim=1)

    def decide(self, scores: Tensor, choice: int, penalty: Tensor | float = 0.0) -> Tensor:
        logits = TANH * torch.tanh(scores / TEMPERATURE) - penalty
        return torch.log_softmax(logits, dim=-1)[:, choice]


class ENAS(nn.Module):
    def __init__(self, vocabulary: int, hidden: int) -> None:
        super().__init__()
        self.child = Child(vocabulary, hidden)
        self.controller = Controller()

    def forward(self, words: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The child's logits and, repeated for the batch, the controller's log probabilities."""
        return self.child(words, state), self.controller().expand(words.shape[0], -1)


def build(
    batch: int = 20, sequence: int = 35, hidden: int = 720, vocabulary: int = 10_000
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return ENAS(vocabulary, hidden), (tokens(vocabulary, batch, sequence), torch.randn(batch, hidden))
