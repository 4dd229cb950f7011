"""Deep interest evolution network (arXiv 1809.03672) on Amazon Books, layers and sizes of the authors' code.

A GRU over the user's history finds interests; a second one, whose update gate is scaled by the attention to
the candidate, follows how they evolve. In training each interest also has to tell the next item of the
history from one that the user skipped. All tables are 18 wide; with Adam, whose gradients are dense.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.recsys.din import scorer
from reference_workloads.synthetic import lengths, zipf_ids

USERS, ITEMS, CATEGORIES = 543_060, 367_983, 1_601
HALF = 18
WIDTH = 2 * HALF


class Dice(nn.Module):
    """A rectifier whose bend follows the mean and variance of the batch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width, eps=1e-8, affine=False)
        self.alpha = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.norm(x))
        return (gate + (1 - gate) * self.alpha) * x


class AttentionalGRU(nn.Module):
    """A GRU whose update gate is multiplied by each time step's attention; a step with 0 changes nothing."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.of_input = nn.Linear(width, 3 * width)
        self.of_state = nn.Linear(width, 3 * width, bias=False)

    def forward(self, x: Tensor, attention: Tensor) -> Tensor:
        """x: (batch, time, width); attention: (batch, time). Returns the last state, (batch, width)."""
        gates = self.of_input(x)
        state = torch.zeros_like(x[:, 0])
        for step in range(x.shape[1]):
            x_reset, x_update, x_new = gates[:, step].chunk(3, dim=-1)
            h_reset, h_update, h_new = self.of_state(state).chunk(3, dim=-1)
            new = torch.tanh(x_new + torch.sigmoid(x_reset + h_reset) * h_new)
            update = attention[:, step, None] * torch.sigmoid(x_update + h_update)
            state = torch.lerp(state, new, update)
        return state


class DIEN(nn.Module):
    category_of: Tensor

    def __init__(self, users: int, items: int, categories: int) -> None:
        super().__init__()
        self.user = nn.Embedding(users, HALF)
        self.item = nn.Embedding(items, HALF)
        self.category = nn.Embedding(categories, HALF)
        for table in (self.user, self.item, self.category):
            nn.init.normal_(table.weight, std=0.05)
        self.register_buffer("category_of", zipf_ids(categories, (items,), 1.0), persistent=False)
        self.extraction = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.query = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.PReLU(WIDTH, init=0.1))
        self.attention = scorer(4 * WIDTH)
        self.evolution = AttentionalGRU(WIDTH)
        self.next_item = nn.Sequential(
            nn.BatchNorm1d(2 * WIDTH),
            nn.Linear(2 * WIDTH, 100),
            nn.Sigmoid(),
            nn.Linear(100, 50),
            nn.Sigmoid(),
            nn.Linear(50, 2),
        )
        self.top = nn.Sequential(
            nn.BatchNorm1d(HALF + 3 * WIDTH),
            nn.Linear(HALF + 3 * WIDTH, 200),
            Dice(200),
            nn.Linear(200, 80),
            Dice(80),
            nn.Linear(80, 2),
        )

    def embed(self, items: Tensor) -> Tensor:
        return torch.cat([self.item(items), self.category(self.category_of[items])], dim=-1)

    def forward(
        self, user: Tensor, candidate: Tensor, history: Tensor, skipped: Tensor, length: Tensor
    ) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        """user, candidate, length: (batch,); history, skipped: (batch, time), padded.

        Returns log probabilities of no click and a click, (batch, 2); in training also those with which the
        next item of the history is told from a skipped one, twice (batch, time - 1).
        """
        time = history.shape[1]
        real = torch.arange(time, device=history.device) < length[:, None]
        # One lookup for all, since the gradient of each has the size of the table.
        looked_up = [candidate[:, None], history, *([skipped] if self.training else [])]
        vectors = self.embed(torch.cat(looked_up, dim=1))
        query, items, others = vectors[:, 0], vectors[:, 1 : time + 1], vectors[:, time + 1 :]
        interests, _ = self.extraction(items)
        interest = self.evolution(interests, self.attend(query, interests, real))
        x = torch.cat([self.user(user), query, interest, items.sum(1)], dim=-1)
        clicks = torch.log_softmax(self.top(x), dim=-1)
        if not self.training:
            return clicks
        followed = self.compare(interests, items, real)[..., 0]
        return clicks, followed, self.compare(interests, others, real)[..., 1]

    def attend(self, query: Tensor, keys: Tensor, real: Tensor) -> Tensor:
        """Attention to each time step, (batch, time); 0 for padding."""
        queries = self.query(query)[:, None, :].expand_as(keys)
        pairs = torch.cat([queries, keys, queries - keys, queries * keys], dim=-1)
        scores = self.attention(pairs).squeeze(-1)
        return torch.softmax(scores.masked_fill(~real, float("-inf")), dim=-1)

    def compare(self, interests: Tensor, items: Tensor, real: Tensor) -> Tensor:
        """Log probabilities that an item comes next and that it does not, (batch, time - 1, 2)."""
        pairs = torch.cat([interests[:, :-1], items[:, 1:]], dim=-1)
        scores = self.next_item(pairs.flatten(0, 1)).view(*pairs.shape[:2], 2)
        return torch.log_softmax(scores, dim=-1) * real[:, 1:, None]


def build(batch: int = 512, history: int = 100, max_rows: int | None = None, batches: int = 8) -> dict[str, object]:
    """`history` is the padded length, `max_rows` cuts the tables, `batches` is the number of batches."""
    users, items, categories = (min(n, max_rows or n) for n in (USERS, ITEMS, CATEGORIES))
    inputs: list[object] = []
    for _ in range(batches):
        candidate, past = zipf_ids(items, (batch,), 0.9), zipf_ids(items, (batch, history), 0.9)
        skipped = torch.randint(items, (batch, history))
        length = lengths(batch, history, min(4, history))
        inputs.append(((zipf_ids(users, (batch,), 0.6), candidate, past, skipped, length), {}))
    return {"model": DIEN(users, items, categories), "inputs": inputs}
