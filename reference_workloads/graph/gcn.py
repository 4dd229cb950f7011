"""GCN (arXiv 1609.02907) on a random graph of Cora's size, from torch-geometric; 23,063 parameters.

2708 papers of 1433 words, 5278 citations, two layers of 16 and 7, the whole graph at once. The words are
zeros and ones, 18 of them a paper, scaled to the sum 1; the normalised adjacency is computed ahead, as in the
authors' code. `batch` graphs lie side by side as one; the paper has one, which is mostly overhead.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from reference_workloads.graph.edges import random_edges

NODES, CITATIONS = 2708, 5278
FEATURES, HIDDEN, CLASSES = 1433, 16, 7
WORDS = 18 / FEATURES
DROPOUT = 0.5


class GCN(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(DROPOUT)
        self.first = GCNConv(features, HIDDEN, normalize=False)
        self.second = GCNConv(HIDDEN, CLASSES, normalize=False)

    def forward(self, words: Tensor, edges: Tensor, weights: Tensor) -> Tensor:
        """words: (batch, nodes, features); edges: (2, edges), weights: (edges,). (batch, nodes, classes)."""
        x = self.dropout(words.flatten(0, 1))
        x = self.dropout(torch.relu(self.first(x, edges, weights)))
        return self.second(x, edges, weights).unflatten(0, words.shape[:2])


def citations(nodes: int) -> Tensor:
    """Both directions of each citation, and a loop at each node."""
    cites = random_edges(nodes, nodes, nodes * CITATIONS // NODES)
    return torch.cat([cites, cites.flip(0), torch.arange(nodes).expand(2, nodes)], dim=1)


def normalised(edges: Tensor, nodes: int) -> Tensor:
    """Each edge's weight: one over the root of the degrees at both ends."""
    degree = torch.zeros(nodes).scatter_add_(0, edges[1], torch.ones(edges.shape[1]))
    return degree[edges[0]].rsqrt() * degree[edges[1]].rsqrt()


def build(
    batch: int = 1, nodes: int = NODES, features: int = FEATURES
) -> tuple[nn.Module, tuple[Tensor, Tensor, Tensor]]:
    edges = torch.cat([citations(nodes) + graph * nodes for graph in range(batch)], dim=1)
    words = (torch.rand(batch, nodes, features) < WORDS).float()
    words = words / words.sum(-1, keepdim=True).clamp(min=1)
    return GCN(features), (words, edges, normalised(edges, batch * nodes))
