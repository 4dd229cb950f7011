"""Wide & Deep (arXiv 1606.07792) on the census data, columns and layers of TensorFlow's official model.

AI Matrix measures this version: a linear model of the categories and of two crosses of them, hashed to
1000 rows, beside dense layers of 100, 75, 50 and 25. With 28,926 parameters it is mostly overhead.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from reference_workloads.synthetic import zipf_ids

CATEGORIES = (16, 7, 6, 9)
"""Education, marital status, relationship, class of work."""

OCCUPATIONS = 15
AGES = (18, 25, 30, 35, 40, 45, 50, 55, 60, 65)
NUMBERS = ((17, 90), (1, 16), (0, 1000), (0, 100), (1, 99))
"""Age, years of education, capital gain and loss (with their means: nearly all are 0), hours a week."""

ROWS = 1000
HASH = 2_654_435_761
OCCUPATION_WIDTH = 8
HIDDEN = (100, 75, 50, 25)


class WideDeep(nn.Module):
    ages: Tensor
    starts: Tensor

    def __init__(self) -> None:
        super().__init__()
        columns = (*CATEGORIES, ROWS, len(AGES) + 1, ROWS, ROWS)
        self.wide = nn.EmbeddingBag(sum(columns), 1, mode="sum")
        self.bias = nn.Parameter(torch.zeros(1))
        self.register_buffer("starts", torch.tensor([0, *accumulate(columns[:-1])]), persistent=False)
        self.register_buffer("ages", torch.tensor(AGES, dtype=torch.float32), persistent=False)
        self.occupation = nn.Embedding(ROWS, OCCUPATION_WIDTH)
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise((len(NUMBERS) + sum(CATEGORIES) + OCCUPATION_WIDTH, *HIDDEN)):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.deep = nn.Sequential(*layers, nn.Linear(HIDDEN[-1], 1))

    def forward(self, numbers: Tensor, categories: Tensor, occupation: Tensor) -> Tensor:
        """numbers: (batch, 5); categories: (batch, 4); occupation: (batch,), hashed. Logits, (batch, 1)."""
        age = (numbers[:, :1] >= self.ages).sum(1)
        cross = occupation * CATEGORIES[0] + categories[:, 0]
        crosses = torch.stack([cross, cross * (len(AGES) + 1) + age], dim=1) * HASH % ROWS
        ids = torch.cat([categories, occupation[:, None], age[:, None], crosses], dim=1) + self.starts
        wide = self.wide(ids) + self.bias
        positions = torch.arange(sum(CATEGORIES), device=ids.device)
        indicators = (ids[:, : len(CATEGORIES), None] == positions).any(1).to(numbers.dtype)
        return wide + self.deep(torch.cat([numbers, indicators, self.occupation(occupation)], dim=1))


def build(batch: int = 4096, batches: int = 8) -> dict[str, object]:
    """`batches` is the number of batches of indices that steps go through."""
    low, high = torch.tensor(NUMBERS, dtype=torch.float32).T
    inputs: list[object] = []
    for _ in range(batches):
        numbers = low + (high - low) * torch.rand(batch, len(NUMBERS))
        categories = torch.stack([zipf_ids(n, (batch,), 1.0) for n in CATEGORIES], dim=1)
        occupation = zipf_ids(OCCUPATIONS, (batch,), 1.0) * HASH % ROWS
        inputs.append(((numbers, categories, occupation), {}))
    return {"model": WideDeep(), "inputs": inputs}
