"""A function for each operator that other runtimes lack, and models of several of them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn, randn

aten = torch.ops.aten
MAP, ROWS, FEW = (2, 3, 4, 6, 5), (2, 30, 4), (2, 7, 4)

CASES = {
    "pool, equal windows": (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 1)), MAP),
    "pool": (lambda x: F.adaptive_avg_pool3d(x, (3, 4, 2)), MAP),
    "pool without a batch": (lambda x: aten._adaptive_avg_pool3d(x, (3, 6, 2)), MAP[1:]),
    "Euclidean": (torch.cdist, FEW, FEW),
    "Euclidean, of many": (torch.cdist, ROWS, FEW),
    "Euclidean, of many, each by itself": (lambda a, b: aten._cdist_forward(a, b, 2.0, 2), ROWS, FEW),
    "by another power": (lambda a, b: torch.cdist(a, b, 3.0), ROWS, FEW),
    "sum of gaps": (lambda a, b: torch.cdist(a, b, 1.0), ROWS, FEW),
    "largest gap": (lambda a, b: torch.cdist(a, b, float("inf")), ROWS, FEW),
    "how many differ": (lambda a, b: torch.cdist(a.round(), b.round(), 0.0), ROWS, FEW),
    "running product": (lambda x: x.cumprod(1), ROWS),
    "stable order": (lambda x: torch.sort(x.round(), dim=1, descending=True, stable=True)[1], ROWS),
    "one axis": (lambda x: aten._upsample_nearest_exact1d(x, [11]), (1, 2, 7)),
    "two axes": (lambda x: F.interpolate(x, size=(7, 3), mode="nearest-exact"), (1, 2, 5, 4)),
    "by a factor": (lambda x: aten._upsample_nearest_exact2d(x, [11, 5], 2.3, 1.3), (1, 2, 5, 4)),
    "experts": (lambda x, w: aten._grouped_mm(x, w, torch.tensor([4, 4, 9], dtype=torch.int32)), (9, 8), (3, 8, 4)),
    "experts, transposed": (
        lambda x, w: aten._grouped_mm(x, w.mT, torch.tensor([1, 9], dtype=torch.int32)),
        (9, 8),
        (2, 4, 8),
    ),
    "a product for each": (lambda x, w: aten._grouped_mm(x, w), (3, 4, 8), (3, 8, 4)),
}

EXPERTS = ("experts", "experts, transposed", "a product for each")
ONLY_AS_ONNX = ("running product", "one axis", "by a factor", *EXPERTS)
"""OpenVINO does not read these from torch's graphs."""


class Functions(nn.Module):
    def __init__(self, cases):
        super().__init__()
        self.rows = [CASES[case] for case in cases]

    def forward(self, *tensors):
        given = iter(tensors)
        return tuple(function(*(next(given) for _ in shapes)) for function, *shapes in self.rows)


def make(cases):
    return Functions(cases), tuple(randn(*shape) for case in cases for shape in CASES[case][1:])
