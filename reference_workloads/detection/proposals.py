"""The region proposal network of Faster R-CNN (arXiv 1506.01497), with a fixed number of proposals."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.detection.boxes import best_apart, by_anchor, clip, decode, pick

CANDIDATES = 1000
"""Boxes that enter the NMS, as in the pyramid detectors; the first codes let 6000 in."""


class ProposalNetwork(nn.Module):
    """For every anchor of a map a score and four offsets."""

    def __init__(self, inputs: int, width: int, anchors: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, width, 3, padding=1)
        self.logits = nn.Conv2d(width, anchors, 1)
        self.deltas = nn.Conv2d(width, 4 * anchors, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, anchors) and (batch, anchors, 4)."""
        x = nn.functional.relu(self.conv(x), inplace=True)
        return by_anchor(self.logits(x), 1).squeeze(-1), by_anchor(self.deltas(x), 4)


def propose(logits: Tensor, deltas: Tensor, anchors: Tensor, image: tuple[int, int], count: int) -> Tensor:
    """The `count` best boxes of each image, (batch, count, 4); no gradient flows through them."""
    boxes = clip(decode(deltas.detach(), anchors), image)
    _, index = best_apart(torch.sigmoid(logits.detach()), boxes, CANDIDATES, count, threshold=0.7)
    return pick(boxes, index)
