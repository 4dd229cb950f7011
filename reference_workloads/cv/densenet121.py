"""DenseNet-121 (arXiv 1608.06993): growth 32, bottlenecks and compression; 8.0 M parameters.

Every layer reads all feature maps of its block and appends 32 of its own: many concatenations, small
convolutions, and batch normalisation before each of them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images

BLOCKS = (6, 12, 24, 16)
"""Layers in each dense block; table 1 of the paper."""

STEM, GROWTH = 64, 32
BOTTLENECK = 4
"""Width of a layer's 1x1 convolution, in growths."""


class DenseLayer(nn.Module):
    """Appends `growth` channels to its input."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        hidden = BOTTLENECK * growth
        self.layers = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(inputs, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU(inplace=True),
            nn.Conv2d(hidden, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.layers(x)], 1)


def transition(inputs: int) -> nn.Sequential:
    """Halves the channels and each side of the map."""
    return nn.Sequential(
        nn.BatchNorm2d(inputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(inputs, inputs // 2, 1, bias=False),
        nn.AvgPool2d(2),
    )


class DenseNet(nn.Module):
    """`shrink` divides every channel count but the classes'."""

    def __init__(self, shrink: int = 1, classes: int = 1000) -> None:
        super().__init__()
        width, growth = STEM // shrink, GROWTH // shrink
        layers: list[nn.Module] = [
            nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        ]
        for index, depth in enumerate(BLOCKS):
            if index:
                layers.append(transition(width))
                width //= 2
            for _ in range(depth):
                layers.append(DenseLayer(width, growth))
                width += growth
        self.features = nn.Sequential(*layers, nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.classifier = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


def build(batch: int = 8, image: int = 224, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return he_normal(DenseNet(shrink)), images(batch, image)
