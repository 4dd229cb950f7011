"""Two towers for retrieval: a user's and an item's vector, learned with a softmax over the batch.

Towers of 1024, 512 and 128, unit vectors, temperature and correction for popular items as in YouTube's model
(Yi et al., RecSys 2019), whose tables are not published: here 2**20 users and items of 64 numbers, as in
torchrec's retrieval example. The query is the user, the item being watched and the mean of the last 50, which
share their table with the candidates.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from reference_workloads.recsys.dlrm import mlp
from reference_workloads.synthetic import zipf_ids

USERS = ITEMS = 2**20
WIDTH = 64
TOWER = (1024, 512, 128)
TEMPERATURE = 0.05


class TwoTower(nn.Module):
    def __init__(self, users: int, items: int, sparse: bool = True) -> None:
        super().__init__()
        self.users = nn.Embedding(users, WIDTH, sparse=sparse)
        self.items = nn.Embedding(items, WIDTH, sparse=sparse)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.05)
        self.query = mlp((3 * WIDTH, *TOWER), nn.Identity())
        self.candidate = mlp((WIDTH, *TOWER), nn.Identity())

    def forward(self, user: Tensor, watched: Tensor, history: Tensor, item: Tensor, share: Tensor) -> Tensor:
        """user, watched, item: (batch,); history: (batch, time); share: the logarithm of each item's share.

        Returns the log likelihood of each item among those of the batch, (batch,).
        """
        # One lookup for all three: the sparse gradients of several would have to be added.
        vectors = self.items(torch.cat([watched[:, None], item[:, None], history], dim=1))
        query = torch.cat([self.users(user), vectors[:, 0], vectors[:, 2:].mean(1)], dim=1)
        queries = nn.functional.normalize(self.query(query), dim=1)
        candidates = nn.functional.normalize(self.candidate(vectors[:, 1]), dim=1)
        logits = queries @ candidates.T / TEMPERATURE - share
        return torch.log_softmax(logits, dim=1).diagonal()


def build(
    batch: int = 1024, history: int = 50, max_rows: int | None = None, sparse: bool = True, batches: int = 4
) -> dict[str, object]:
    """`max_rows` cuts the tables, `batches` is the number of batches of indices that steps go through."""
    users, items = (min(n, max_rows or n) for n in (USERS, ITEMS))
    inputs: list[object] = []
    for _ in range(batches):
        item = zipf_ids(items, (batch,), 1.0)
        share = torch.log(torch.log1p(1 / (item.float() + 1)) / math.log(items + 1))
        watched, past = zipf_ids(items, (batch,), 1.0), zipf_ids(items, (batch, history), 1.0)
        inputs.append(((zipf_ids(users, (batch,), 0.6), watched, past, item, share), {}))
    return {"model": TwoTower(users, items, sparse), "inputs": inputs}
