"""GraphSAGE (arXiv 1706.02216) with sizes of Reddit, convolutions from torch-geometric; 0.33 M parameters.

602 features, 256 hidden, 41 classes; for each node of the batch 25 neighbours and 10 of each of these are
sampled. Sampling is not part of the step: it gets the feature vectors of the nodes that were drawn and the
edges of both hops. How many nodes are distinct depends on the draw; here it is 16 first and 68 second
neighbours for each node of the batch, an assumption near what sampling 1024 nodes of Reddit gives.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from reference_workloads.graph.edges import sampled_edges

FEATURES, HIDDEN, CLASSES = 602, 256, 41
FIRST, SECOND = 25, 10
INNER, ALL = 1 + 16, 1 + 16 + 68
"""Nodes for each one of the batch: itself with its neighbours, and with theirs."""


class GraphSAGE(nn.Module):
    def __init__(self, batch: int, features: int, hidden: int) -> None:
        super().__init__()
        self.batch = batch
        self.first = SAGEConv(features, hidden)
        self.second = SAGEConv(hidden, CLASSES)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor, outer: Tensor, inner: Tensor) -> Tensor:
        """x: (85 * batch, features), the batch first, then its neighbours; outer: edges to them; inner: edges
        to the batch. Returns logits, (batch, classes)."""
        x = self.first((x, x[: INNER * self.batch]), outer)
        x = self.dropout(torch.relu(x))
        return self.second((x, x[: self.batch]), inner)


def build(batch: int = 256, features: int = FEATURES, hidden: int = HIDDEN, batches: int = 4) -> dict[str, object]:
    """`batches` is the number of sets of edges that steps go through."""
    x = torch.randn(ALL * batch, features)
    inputs: list[object] = []
    for _ in range(batches):
        outer = sampled_edges(ALL * batch, INNER * batch, SECOND)
        inner = sampled_edges(INNER * batch, batch, FIRST)
        inputs.append(((x, outer, inner), {}))
    return {"model": GraphSAGE(batch, features, hidden), "inputs": inputs}
