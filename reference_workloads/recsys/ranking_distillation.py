"""Ranking distillation (arXiv 1809.07428) of Caser (arXiv 1809.07426) on Gowalla, as AIBench measures it.

Teacher 100 wide, 5.58 M parameters, fixed; student 50 wide, 2.79 M. In training the teacher ranks all items
and the student scores the item that came next, random negatives, the ten best of the teacher, and 100 random
items, from which it estimates its own ranks of those ten: they weigh more where it ranks them lower. The
code of the authors keeps the rankings of the teacher where they fit into memory. Inference is the scores that
the student gives all items.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.synthetic import zipf_ids

USERS, ITEMS = 13_100, 14_000
"""As rounded in the paper."""

LENGTH = 5
"""Items that a user visited last."""

VERTICAL, HORIZONTAL = 2, 16
NEGATIVES, BEST, RANDOM = 3, 10, 100
SHARPNESS = 0.1


class Caser(nn.Module):
    """Convolutions over the last items as an image: along time, and over windows of one to all items."""

    def __init__(self, users: int, items: int, width: int) -> None:
        super().__init__()
        self.user = nn.Embedding(users, width)
        self.item = nn.Embedding(items, width)
        self.target = nn.Embedding(items, 2 * width)
        for table in (self.user, self.item, self.target):
            nn.init.normal_(table.weight, std=1 / table.embedding_dim)
        self.target_bias = nn.Embedding(items, 1)
        nn.init.zeros_(self.target_bias.weight)
        self.vertical = nn.Conv2d(1, VERTICAL, (LENGTH, 1))
        self.horizontal = nn.ModuleList(nn.Conv2d(1, HORIZONTAL, (window, width)) for window in range(1, LENGTH + 1))
        self.dropout = nn.Dropout(0.5)
        self.mix = nn.Linear(VERTICAL * width + HORIZONTAL * LENGTH, width)

    def profile(self, user: Tensor, last: Tensor) -> Tensor:
        """user: (batch,); last: (batch, 5). Returns (batch, 2 * width)."""
        image = self.item(last)[:, None]
        features = [self.vertical(image).flatten(1)]
        features += [conv(image).squeeze(3).amax(2) for conv in self.horizontal]
        mixed = torch.sigmoid(self.mix(self.dropout(torch.cat(features, dim=1))))
        return torch.cat([mixed, self.user(user)], dim=1)

    def score(self, profile: Tensor, items: Tensor) -> Tensor:
        """Scores of some items, (batch, n)."""
        return torch.baddbmm(self.target_bias(items), self.target(items), profile[:, :, None]).squeeze(2)

    def score_all(self, profile: Tensor) -> Tensor:
        return torch.addmm(self.target_bias.weight.T, profile, self.target.weight.T)


class RankingDistillation(nn.Module):
    position: Tensor

    def __init__(self, users: int, items: int, width: int = 50) -> None:
        super().__init__()
        self.items = items
        self.teacher = Caser(users, items, 2 * width).requires_grad_(False)
        self.student = Caser(users, items, width)
        self.register_buffer("position", torch.softmax(-torch.arange(BEST).float(), 0), persistent=False)

    def train(self, mode: bool = True) -> RankingDistillation:
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, user: Tensor, last: Tensor, samples: Tensor) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        """user: (batch,); last: (batch, 5); samples: (batch, 104), the next item and random ones.

        Returns the student's scores of all items; in training those of the next item and of the negatives,
        and the weighted log likelihood of the teacher's best.
        """
        profile = self.student.profile(user, last)
        if not self.training:
            return self.student.score_all(profile)
        with torch.no_grad():
            best = self.teacher.score_all(self.teacher.profile(user, last)).topk(BEST, dim=1).indices
        scores = self.student.score(profile, torch.cat([samples, best], dim=1))
        following, negative, random, taught = scores.split([1, NEGATIVES, RANDOM, BEST], dim=1)
        weights = self.weights(taught.detach(), random.detach())
        return following, negative, weights * nn.functional.logsigmoid(taught)

    def weights(self, taught: Tensor, random: Tensor) -> Tensor:
        """More for what the teacher ranks higher, and for what the student ranks lower than the teacher."""
        share_above = (taught[:, :, None] < random[:, None, :]).to(taught.dtype).mean(2)
        rank = torch.floor(self.items * share_above)
        lower = rank - torch.arange(BEST, device=rank.device)
        return torch.tanh(SHARPNESS * lower).clamp(min=0) * self.position


def build(batch: int = 512, width: int = 50, max_rows: int | None = None, batches: int = 8) -> dict[str, object]:
    """`width` is the student's, `max_rows` cuts the tables, `batches` is the number of batches of indices."""
    users, items = (min(n, max_rows or n) for n in (USERS, ITEMS))
    inputs: list[object] = []
    for _ in range(batches):
        visited = zipf_ids(items, (batch, LENGTH + 1), 0.8)
        drawn = torch.randint(items, (batch, NEGATIVES + RANDOM))
        samples = torch.cat([visited[:, LENGTH:], drawn], dim=1)
        inputs.append(((zipf_ids(users, (batch,), 0.6), visited[:, :LENGTH], samples), {}))
    return {"model": RankingDistillation(users, items, width), "inputs": inputs}
