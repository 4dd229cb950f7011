"""R-GAT (arXiv 1904.05811) as in MLPerf training, from torch-geometric, on random graphs like IGBH's; 13.1 M.

Three layers of 512 with four heads, each with a GAT for each of eleven relations between six kinds of nodes
that have 1024 features; 2983 classes of papers. Three hops of 15, 10 and 5 neighbours are sampled outside the
step. The sampled sizes are not published: those below, for each paper of the batch, are an assumption. Every
layer computes every relation, as in the reference of MLPerf, so that those of the last layer that end
elsewhere than in papers get no gradient; unlike there, only the papers of the batch are classified.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, HeteroConv

from reference_workloads.graph.edges import random_edges

FEATURES, HIDDEN, CLASSES = 1024, 512, 2983
LAYERS, HEADS = 3, 4

NODES = {"paper": 160, "author": 80, "institute": 4, "fos": 32, "journal": 2, "conference": 1}
"""Sampled nodes for each paper of the batch; fos is the field of study."""

EDGES = {
    ("paper", "cites", "paper"): 400,
    ("paper", "written_by", "author"): 120,
    ("author", "affiliated_to", "institute"): 20,
    ("paper", "topic", "fos"): 160,
    ("author", "rev_written_by", "paper"): 240,
    ("institute", "rev_affiliated_to", "author"): 80,
    ("fos", "rev_topic", "paper"): 480,
    ("paper", "published", "journal"): 10,
    ("paper", "venue", "conference"): 5,
    ("journal", "rev_published", "paper"): 40,
    ("conference", "rev_venue", "paper"): 20,
}
"""Sampled edges of each relation for each paper of the batch."""


def layer(inputs: int, hidden: int) -> HeteroConv:
    return HeteroConv(
        {relation: GATConv(inputs, hidden // HEADS, heads=HEADS, add_self_loops=False) for relation in EDGES}
    )


class RGAT(nn.Module):
    def __init__(self, batch: int, features: int, hidden: int) -> None:
        super().__init__()
        self.batch = batch
        self.layers = nn.ModuleList(layer(hidden if i else features, hidden) for i in range(LAYERS))
        self.dropout = nn.Dropout(0.2)
        self.classes = nn.Linear(hidden, CLASSES)

    def forward(self, nodes: tuple[Tensor, ...], edges: tuple[Tensor, ...]) -> Tensor:
        """nodes: in the order of NODES, (number, features), the batch first; edges: in that of EDGES,
        (2, number). Returns logits, (batch, classes)."""
        vectors = dict(zip(NODES, nodes, strict=True))
        relations = dict(zip(EDGES, edges, strict=True))
        for index, convolution in enumerate(self.layers):
            if index:
                vectors = {kind: self.dropout(nn.functional.leaky_relu(x)) for kind, x in vectors.items()}
            vectors = convolution(vectors, relations)
        return self.classes(vectors["paper"][: self.batch])


def build(batch: int = 8, features: int = FEATURES, hidden: int = HIDDEN, batches: int = 2) -> dict[str, object]:
    """`batches` is the number of sets of edges that steps go through."""
    counts = {kind: batch * number for kind, number in NODES.items()}
    nodes = tuple(torch.randn(number, features) for number in counts.values())
    inputs: list[object] = []
    for _ in range(batches):
        edges = tuple(
            random_edges(counts[source], counts[target], batch * number)
            for (source, _, target), number in EDGES.items()
        )
        inputs.append(((nodes, edges), {}))
    return {"model": RGAT(batch, features, hidden), "inputs": inputs}
