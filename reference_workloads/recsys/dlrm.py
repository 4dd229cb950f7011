"""DLRM on Criteo Kaggle (arXiv 1906.00091): 26 tables of width 16, 540.7 M parameters, 2.2 GB.

As in the reference code: embedding bags with sparse gradients and one index a bag, pairwise dot products of
the 27 vectors, SGD.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from reference_workloads.synthetic import zipf_ids

ROWS = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194,
    27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)  # fmt: skip
"""Distinct values of the 26 categorical features."""

DENSE, WIDTH = 13, 16
BOTTOM, TOP = (512, 256, 64, WIDTH), (512, 256, 1)


def mlp(widths: tuple[int, ...], last: nn.Module) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        linear = nn.Linear(inputs, outputs)
        nn.init.normal_(linear.weight, std=(2 / (inputs + outputs)) ** 0.5)
        nn.init.normal_(linear.bias, std=(1 / outputs) ** 0.5)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1], last)


DRAWN_ROWS = 2**17


def table(rows: int, width: int) -> Tensor:
    """The weights of a table, uniform within ± 1/√rows. A larger one repeats its first rows: drawing half a billion
    numbers takes seconds, and no time depends on them."""
    drawn = torch.empty(min(rows, DRAWN_ROWS), width).uniform_(-(rows**-0.5), rows**-0.5)
    weights = torch.empty(rows, width)
    for part in weights.split(DRAWN_ROWS):
        part.copy_(drawn[: len(part)])
    return weights


class DLRM(nn.Module):
    pairs: Tensor

    def __init__(self, rows: tuple[int, ...], sparse: bool = True) -> None:
        super().__init__()
        tables = [nn.EmbeddingBag(n, WIDTH, mode="sum", sparse=sparse, _weight=table(n, WIDTH)) for n in rows]
        self.tables = nn.ModuleList(tables)
        vectors = len(rows) + 1
        pairs = torch.tril_indices(vectors, vectors, offset=-1)
        self.register_buffer("pairs", pairs, persistent=False)
        self.bottom = mlp((DENSE, *BOTTOM), nn.ReLU())
        self.top = mlp((WIDTH + pairs.shape[1], *TOP), nn.Sigmoid())

    def forward(self, dense: Tensor, indices: Tensor, offsets: Tensor) -> Tensor:
        """dense: (batch, 13); indices: (26, batch), one value a feature; offsets: (batch,)."""
        x = self.bottom(dense)
        bags = [table(index, offsets) for table, index in zip(self.tables, indices, strict=True)]
        vectors = torch.stack([x, *bags], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        return self.top(torch.cat([x, products[:, self.pairs[0], self.pairs[1]]], dim=1))


def build(batch: int = 512, max_rows: int | None = None, sparse: bool = True, batches: int = 8) -> dict[str, object]:
    """`max_rows` cuts the tables, `batches` is the number of batches of indices that steps go through."""
    rows = ROWS if max_rows is None else tuple(min(n, max_rows) for n in ROWS)
    offsets = torch.arange(batch)
    inputs: list[object] = []
    for _ in range(batches):
        # Counts, of which the reference code takes the logarithm.
        dense = torch.log1p(torch.empty(batch, DENSE).exponential_(0.05))
        indices = torch.stack([zipf_ids(n, (batch,)) for n in rows])
        inputs.append(((dense, indices, offsets), {}))
    return {"model": DLRM(rows, sparse), "inputs": inputs}
