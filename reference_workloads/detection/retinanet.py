"""RetinaNet (arXiv 1708.02002), ResNeXt-50 32x4d, as in MLPerf since 2022 on Open Images; 37.1 M parameters.

Two towers of four convolutions run over five maps, nine anchors a cell, 264 classes with the background.
NMS is one dense step over a fixed number of candidates, in inference only. Normalisation is fixed and the
first stage frozen, as where one fine-tunes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from reference_workloads.detection.backbones import FeaturePyramid, FrozenNorm, ResNet
from reference_workloads.detection.boxes import (
    anchor_grid,
    anchor_shapes,
    by_anchor,
    clip,
    decode,
    detections,
    near_zero,
)
from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images

CLASSES = 264
STRIDES = (8, 16, 32, 64, 128)
ANCHORS = 9


def shapes(stride: int) -> list[tuple[float, float]]:
    """Three sizes from four strides on, each 2 ** (1 / 3) larger than the one before, in three ratios."""
    return anchor_shapes([4 * stride * 2 ** (octave / 3) for octave in range(3)])


class Tower(nn.Module):
    def __init__(self, width: int, values: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(4):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU(inplace=True)]
        self.convolutions = nn.Sequential(*layers)
        self.output = nn.Conv2d(width, ANCHORS * values, 3, padding=1)
        self.values = values

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        """(batch, anchors of all maps, values)."""
        return torch.cat([by_anchor(self.output(self.convolutions(x)), self.values) for x in maps], dim=1)


class RetinaNet(nn.Module):
    """In training it returns logits and offsets, in inference scores, labels and boxes."""

    anchors: Tensor

    def __init__(self, image: int, shrink: int = 1) -> None:
        super().__init__()
        self.image = (image, image)
        width = 256 // shrink
        self.backbone = ResNet(50, shrink, FrozenNorm, groups=32 // shrink)
        self.pyramid = FeaturePyramid(self.backbone.widths[1:], width)
        self.coarser = nn.ModuleList(nn.Conv2d(width, width, 3, stride=2, padding=1) for _ in range(2))
        self.classes = Tower(width, CLASSES)
        self.boxes = Tower(width, 4)
        he_normal(self)
        near_zero(self.classes.output, self.boxes.output)
        self.backbone.stem.requires_grad_(False)
        self.backbone.stages[0].requires_grad_(False)
        cells = [-(-image // stride) for stride in STRIDES]
        grids = [anchor_grid((side, side), stride, shapes(stride)) for side, stride in zip(cells, STRIDES, strict=True)]
        self.register_buffer("anchors", torch.cat(grids), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        maps = self.pyramid(self.backbone(x)[1:])
        maps.append(self.coarser[0](maps[-1]))
        maps.append(self.coarser[1](nn.functional.relu(maps[-1])))
        logits, deltas = self.classes(maps), self.boxes(maps)
        if self.training:
            return logits, deltas
        boxes = clip(decode(deltas, self.anchors), self.image)
        return detections(torch.sigmoid(logits), boxes, 1000, 300, 0.5)


def build(batch: int = 1, image: int = 384, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`shrink` divides every channel count but those of the predictions."""
    return RetinaNet(image, shrink), images(batch, image)
