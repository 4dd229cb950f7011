"""What SSD (arXiv 1512.02325) and its descendants share: a ladder of maps, default boxes, predictions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from reference_workloads.detection.boxes import anchor_grid, by_anchor, decode, detections

VARIANCES = (0.1, 0.2)
CANDIDATES, KEPT, OVERLAP = 400, 200, 0.45
"""Pairs of box and class that enter the NMS and that leave it, and its threshold."""


def step(inputs: int, middle: int, outputs: int, stride: int = 1, padding: int = 0) -> nn.Sequential:
    """A 1x1 and a 3x3 convolution that lead to a smaller map."""
    return nn.Sequential(
        nn.Conv2d(inputs, middle, 1),
        nn.ReLU(inplace=True),
        nn.Conv2d(middle, outputs, 3, stride=stride, padding=padding),
        nn.ReLU(inplace=True),
    )


class Ladder(nn.Module):
    """The last `kept` maps of a backbone, then one of every step, each from the map before."""

    def __init__(self, backbone: nn.Module, kept: int, steps: Sequence[nn.Module]) -> None:
        super().__init__()
        self.backbone = backbone
        self.kept = kept
        self.steps = nn.ModuleList(steps)

    def forward(self, x: Tensor) -> list[Tensor]:
        maps = list(self.backbone(x)[-self.kept :])
        for layers in self.steps:
            maps.append(layers(maps[-1]))
        return maps


def default_boxes(cells: Sequence[int], sizes: Sequence[float], ratios: Sequence[Sequence[float]]) -> Tensor:
    """SSD's anchors in units of the image: two squares a cell, and two boxes for each ratio.

    `sizes` has one entry more than there are maps: the second square is between a size and the next.
    """
    boxes = []
    for side, (size, larger), extra in zip(cells, pairwise(sizes), ratios, strict=True):
        middle = (size * larger) ** 0.5
        oblong = [(size * root, size / root) for ratio in extra for root in (ratio**0.5, ratio**-0.5)]
        boxes.append(anchor_grid((side, side), 1 / side, [(size, size), (middle, middle), *oblong]))
    return torch.cat(boxes)


class SingleShot(nn.Module):
    """A convolution for the classes and one for the boxes on every map that `features` returns.

    In training it returns the logits, (batch, anchors, classes), and the offsets; in inference the scores,
    labels and boxes of a fixed number of detections. Class 0 is the background.
    """

    anchors: Tensor

    def __init__(
        self,
        features: nn.Module,
        widths: Sequence[int],
        anchors: Tensor,
        kinds: Sequence[int],
        classes: int,
        *,
        kernels: Sequence[int] = (3, 3, 3, 3, 3, 3),
        stride: int = 1,
    ) -> None:
        """`kinds` are the anchors of a cell of each map, `stride` that of the predicting convolutions."""
        super().__init__()
        self.features = features
        self.classes = classes
        self.logits, self.deltas = nn.ModuleList(), nn.ModuleList()
        for width, kind, size in zip(widths, kinds, kernels, strict=True):
            options = {"stride": stride, "padding": size // 2}
            self.logits.append(nn.Conv2d(width, kind * classes, size, **options))
            self.deltas.append(nn.Conv2d(width, kind * 4, size, **options))
        self.register_buffer("anchors", anchors, persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        maps = self.features(x)
        pairs = list(zip(maps, self.logits, self.deltas, strict=True))
        logits = torch.cat([by_anchor(layer(x), self.classes) for x, layer, _ in pairs], dim=1)
        deltas = torch.cat([by_anchor(layer(x), 4) for x, _, layer in pairs], dim=1)
        if self.training:
            return logits, deltas
        boxes = decode(deltas, self.anchors, VARIANCES)
        scores = torch.softmax(logits, dim=-1)[..., 1:]
        return detections(scores, boxes, CANDIDATES, KEPT, OVERLAP)
