"""SegLink text detector (arXiv 1703.06520) on SSD's VGG-16, as in bgshih/seglink.

Every cell of six maps predicts one rotated segment of a word, and links to its 8 neighbours and, from the
second map on, to the 4 cells below it. Joining linked segments to words, a search through a graph on the
host, is left out. As in that code, the first four convolutions keep their weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from reference_workloads.detection.backbones import AtrousVGG
from reference_workloads.detection.boxes import LARGEST, anchor_grid, by_anchor
from reference_workloads.detection.single_shot import Ladder, step
from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images

WIDTHS = (512, 1024, 512, 256, 256, 256)
STRIDES = (8, 16, 32, 64, 128, 256)
ANCHORS = (11.84210526, 23.68421053, 45.0, 90.0, 150.0, 285.0)
"""Sizes in pixels."""

WITHIN, ACROSS = 8, 4
OFFSETS = 6
"""Centre x and y, width, height, and the sine and cosine of the angle."""

FROZEN = 10
"""Layers of the backbone up to the second pooling."""


def predict(layers: nn.ModuleList, maps: Sequence[Tensor], values: int) -> Tensor:
    """One layer on each map: (batch, predictions of all maps, values)."""
    return torch.cat([by_anchor(layer(x), values) for layer, x in zip(layers, maps, strict=True)], dim=1)


class SegLink(nn.Module):
    """In training it returns logits of segments and links, and offsets; in inference scores and boxes."""

    anchors: Tensor

    def __init__(self, image: int, shrink: int = 1) -> None:
        super().__init__()
        widths = [width // shrink for width in WIDTHS]
        backbone = AtrousVGG(shrink)
        last = nn.Conv2d(widths[4], widths[5], 3, stride=2, padding=1)
        steps = [
            step(widths[1], 256 // shrink, widths[2], stride=2, padding=1),
            step(widths[2], 128 // shrink, widths[3], stride=2, padding=1),
            step(widths[3], 128 // shrink, widths[4], stride=2, padding=1),
            nn.Sequential(last, nn.ReLU(inplace=True)),
        ]
        self.features = Ladder(backbone, 2, steps)
        links = [WITHIN if index == 0 else WITHIN + ACROSS for index in range(len(widths))]
        self.segments = nn.ModuleList(nn.Conv2d(width, 2, 3, padding=1) for width in widths)
        self.links = nn.ModuleList(
            nn.Conv2d(width, 2 * count, 3, padding=1) for width, count in zip(widths, links, strict=True)
        )
        self.offsets = nn.ModuleList(nn.Conv2d(width, OFFSETS, 3, padding=1) for width in widths)
        he_normal(self)
        backbone.lower[:FROZEN].requires_grad_(False)
        cells = [-(-image // stride) for stride in STRIDES]
        anchors = [
            anchor_grid((side, side), image / side, [(size, size)]) for side, size in zip(cells, ANCHORS, strict=True)
        ]
        self.register_buffer("anchors", torch.cat(anchors), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(batch, cells, 2), (batch, links, 2) and (batch, cells, 6)."""
        maps = self.features(x)
        segments = predict(self.segments, maps, 2)
        links = predict(self.links, maps, 2)
        offsets = predict(self.offsets, maps, OFFSETS)
        if self.training:
            return segments, links, offsets
        positive = (torch.softmax(logits, dim=-1)[..., 1] for logits in (segments, links))
        return *positive, self.decode(offsets)

    def decode(self, offsets: Tensor) -> Tensor:
        """Rotated boxes: centre x and y, width, height and angle, (batch, cells, 5)."""
        size = self.anchors[:, 2:]
        centres = self.anchors[:, :2] + offsets[..., :2] * size
        sizes = torch.exp(offsets[..., 2:4].clamp(max=LARGEST)) * size
        angles = torch.atan2(offsets[..., 4:5], offsets[..., 5:6])
        return torch.cat([centres, sizes, angles], dim=-1)


def build(batch: int = 1, image: int = 384, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`shrink` divides every channel count but those of the predictions."""
    return SegLink(image, shrink), images(batch, image)
