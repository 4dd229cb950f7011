"""Neural matrix factorisation (arXiv 1708.05031) on MovieLens 20M, MLPerf v0.5 sizes; 31.8 M parameters."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from reference_workloads.synthetic import zipf_ids

USERS, ITEMS = 138_493, 26_744
FACTORS = 64
LAYERS = (256, 256, 128, 64)
NEGATIVES = 4


class NeuMF(nn.Module):
    def __init__(self, users: int, items: int) -> None:
        super().__init__()
        self.mf_user = nn.Embedding(users, FACTORS)
        self.mf_item = nn.Embedding(items, FACTORS)
        self.mlp_user = nn.Embedding(users, LAYERS[0] // 2)
        self.mlp_item = nn.Embedding(items, LAYERS[0] // 2)
        for table in (self.mf_user, self.mf_item, self.mlp_user, self.mlp_item):
            nn.init.normal_(table.weight, std=0.01)
        layers = [nn.Linear(a, b) for a, b in pairwise(LAYERS)]
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)
        self.mlp = nn.ModuleList(layers)
        self.final = nn.Linear(LAYERS[-1] + FACTORS, 1)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        factors = self.mf_user(user) * self.mf_item(item)
        x = torch.cat([self.mlp_user(user), self.mlp_item(item)], dim=1)
        for layer in self.mlp:
            x = torch.relu(layer(x))
        return self.final(torch.cat([factors, x], dim=1))


def build(batch: int = 2048, max_rows: int | None = None, batches: int = 8) -> dict[str, object]:
    """`max_rows` cuts the tables, `batches` is the number of batches of indices that steps go through.

    As in training: for each rated film, drawn by popularity, four are drawn uniformly. Users differ in the
    number of their ratings.
    """
    users, items = (min(n, max_rows or n) for n in (USERS, ITEMS))
    inputs: list[object] = []
    for _ in range(batches):
        rated = torch.rand(batch) < 1 / (1 + NEGATIVES)
        item = torch.where(rated, zipf_ids(items, (batch,), 1.0), torch.randint(items, (batch,)))
        inputs.append(((zipf_ids(users, (batch,), 0.6), item), {}))
    return {"model": NeuMF(users, items), "inputs": inputs}
