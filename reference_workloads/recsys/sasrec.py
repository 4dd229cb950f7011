"""SASRec (arXiv 1808.09781) on MovieLens-1M, layers and sizes of the authors' code; 0.2 M parameters.

Two blocks of causal self-attention, one head 50 wide, over the last 200 films. As there: the queries are
normalised but not the keys and values, there is no projection after the attention, and films share one table
as input and target. Each position is scored against the next film and a random one.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.synthetic import lengths, zipf_ids

ITEMS = 3416
"""Films are numbered from 1; 0 is padding."""

WIDTH = 50
BLOCKS = 2
DROPOUT = 0.2


def norm() -> nn.LayerNorm:
    return nn.LayerNorm(WIDTH, eps=1e-8)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query_norm, self.norm = norm(), norm()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)
        self.layers = nn.Sequential(
            nn.Linear(WIDTH, WIDTH),
            nn.ReLU(),
            nn.Dropout(DROPOUT),
            nn.Linear(WIDTH, WIDTH),
            nn.Dropout(DROPOUT),
        )

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        """x: (batch, time, width); hidden: (batch, time, time), the keys that each query must not see."""
        queries = self.query_norm(x)
        scores = self.query(queries) @ self.key(x).transpose(1, 2) / WIDTH**0.5
        # Not -inf: a padded position sees no key at all.
        weights = torch.softmax(scores.masked_fill(hidden, torch.finfo(scores.dtype).min), dim=-1)
        x = self.norm(queries + self.dropout(weights) @ self.value(x))
        return x + self.layers(x)


class SASRec(nn.Module):
    def __init__(self, items: int, longest: int) -> None:
        super().__init__()
        self.items = nn.Embedding(items + 1, WIDTH, padding_idx=0)
        self.positions = nn.Embedding(longest, WIDTH)
        for table in (self.items, self.positions):
            nn.init.xavier_uniform_(table.weight)
        self.dropout = nn.Dropout(DROPOUT)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm = norm()

    def forward(self, history: Tensor, following: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """All (batch, time), padded on the left. Returns the scores of `following` and `other`, likewise."""
        real = history != 0
        time = history.shape[1]
        future = torch.ones(time, time, dtype=torch.bool, device=history.device).triu(1)
        hidden = future | ~real[:, None, :]
        x = self.items(history) * WIDTH**0.5 + self.positions.weight
        x = self.dropout(x) * real[:, :, None]
        for block in self.blocks:
            x = block(x, hidden) * real[:, :, None]
        x = self.norm(x)
        scores = (x[:, :, None] * self.items(torch.stack([following, other], dim=2))).sum(-1)
        scores = scores * real[:, :, None]
        return scores[..., 0], scores[..., 1]


def build(batch: int = 128, history: int = 200, max_rows: int | None = None, batches: int = 8) -> dict[str, object]:
    """`history` is the padded length, `max_rows` cuts the table, `batches` is the number of batches."""
    items = min(ITEMS, max_rows or ITEMS)
    inputs: list[object] = []
    for _ in range(batches):
        films = zipf_ids(items, (batch, history + 1), 0.8) + 1
        real = torch.arange(history) >= history - lengths(batch, history, min(10, history))[:, None]
        other = torch.randint(1, items + 1, (batch, history))
        inputs.append(((films[:, :-1] * real, films[:, 1:] * real, other * real), {}))
    return {"model": SASRec(items, history), "inputs": inputs}
