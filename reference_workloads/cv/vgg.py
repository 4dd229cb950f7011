"""VGG of arXiv 1409.1556 without batch normalisation: VGG-16 (configuration D), 138.4 M parameters, and VGG-11
(configuration A), one convolution a stage fewer, 132.9 M."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images

STAGES_16 = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
STAGES_11 = ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2))
"""(channels, 3x3 convolutions) before each max pooling."""


class VGG(nn.Module):
    """`shrink` divides every channel count but the classes'."""

    def __init__(self, shrink: int = 1, classes: int = 1000, stages: tuple[tuple[int, int], ...] = STAGES_16) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = 3
        for channels, depth in stages:
            for _ in range(depth):
                layers += [nn.Conv2d(width, channels // shrink, 3, padding=1), nn.ReLU(inplace=True)]
                width = channels // shrink
            layers.append(nn.MaxPool2d(2))
        hidden = 4096 // shrink
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(width * 49, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.Linear(hidden, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(self.pool(self.features(x)), 1))


def vgg16(batch: int = 4, image: int = 224, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return he_normal(VGG(shrink)), images(batch, image)


def vgg11(batch: int = 8, image: int = 224, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return he_normal(VGG(shrink, stages=STAGES_11)), images(batch, image)
