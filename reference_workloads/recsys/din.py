"""Deep interest network (arXiv 1706.06978) on Amazon Electronics, layers and sizes of the authors' code.

An item is its own vector and its category's, 64 numbers each; a small network weighs each item of the
user's history against the candidate. The authors' code also makes a table of users that nothing reads.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.synthetic import lengths, zipf_ids

ITEMS, CATEGORIES = 63_001, 801
HALF = 64
WIDTH = 2 * HALF


def scorer(inputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 80), nn.Sigmoid(), nn.Linear(80, 40), nn.Sigmoid(), nn.Linear(40, 1))


class DIN(nn.Module):
    category_of: Tensor

    def __init__(self, items: int, categories: int, sparse: bool = True) -> None:
        super().__init__()
        self.item = nn.Embedding(items, HALF, sparse=sparse)
        self.category = nn.Embedding(categories, HALF, sparse=sparse)
        self.item_bias = nn.Embedding(items, 1, sparse=sparse)
        for table in (self.item, self.category, self.item_bias):
            nn.init.normal_(table.weight, std=0.05)
        self.register_buffer("category_of", zipf_ids(categories, (items,), 1.0), persistent=False)
        self.attention = scorer(4 * WIDTH)
        self.history_norm = nn.BatchNorm1d(WIDTH)
        self.history_out = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(2 * WIDTH)
        self.top = scorer(2 * WIDTH)

    def embed(self, items: Tensor) -> Tensor:
        return torch.cat([self.item(items), self.category(self.category_of[items])], dim=-1)

    def forward(self, candidate: Tensor, history: Tensor, length: Tensor) -> Tensor:
        """candidate, length: (batch,); history: (batch, time), padded. Returns logits, (batch,)."""
        # One lookup for both: the sparse gradients of two would have to be added.
        vectors = self.embed(torch.cat([candidate[:, None], history], dim=1))
        query, keys = vectors[:, 0], vectors[:, 1:]
        interest = self.history_out(self.history_norm(self.attend(query, keys, length)))
        logits = self.top(self.norm(torch.cat([interest, query], dim=-1)))
        return (self.item_bias(candidate) + logits).squeeze(-1)

    def attend(self, query: Tensor, keys: Tensor, length: Tensor) -> Tensor:
        queries = query[:, None, :].expand_as(keys)
        pairs = torch.cat([queries, keys, queries - keys, queries * keys], dim=-1)
        scores = self.attention(pairs).transpose(1, 2) / WIDTH**0.5
        padding = torch.arange(keys.shape[1], device=keys.device) >= length[:, None]
        weights = torch.softmax(scores.masked_fill(padding[:, None, :], float("-inf")), dim=-1)
        return torch.bmm(weights, keys).squeeze(1)


def build(
    batch: int = 512, history: int = 100, max_rows: int | None = None, sparse: bool = True, batches: int = 8
) -> dict[str, object]:
    """`history` is the padded length, `max_rows` cuts the tables, `batches` is the number of batches."""
    items, categories = (min(n, max_rows or n) for n in (ITEMS, CATEGORIES))
    inputs: list[object] = []
    for _ in range(batches):
        candidate, past = zipf_ids(items, (batch,), 0.9), zipf_ids(items, (batch, history), 0.9)
        inputs.append(((candidate, past, lengths(batch, history, min(4, history))), {}))
    return {"model": DIN(items, categories, sparse), "inputs": inputs}
