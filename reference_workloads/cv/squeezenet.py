"""SqueezeNet 1.0 (arXiv 1602.07360): AlexNet's accuracy with 1.25 M parameters.

Fire modules squeeze with a 1x1 convolution and expand with 1x1 and 3x3 ones side by side; the classes are
the channels of a last convolution. `minor` = 1 gives the authors' version 1.1, the one that AI Matrix runs
under TensorRT: a smaller first convolution and earlier poolings, 1.24 M parameters.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.cv.googlenet import conv
from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images

FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
"""Table 1 of the paper, fire2 to fire9: channels of the squeeze, and of each half of the expansion."""

STEMS = ((96, 7), (64, 3))
"""Channels and kernel of the first convolution, of version 1.0 and 1.1."""

POOLED = ((4, 8), (3, 5))
"""Numbers of the fire modules that a pooling follows, of version 1.0 and 1.1."""


class Fire(nn.Module):
    def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = conv(inputs, squeezed, 1)
        self.ones = conv(squeezed, expanded, 1)
        self.threes = conv(squeezed, expanded, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze(x)
        return torch.cat([self.ones(x), self.threes(x)], 1)


class SqueezeNet(nn.Module):
    """`shrink` divides every channel count but the classes'."""

    def __init__(self, shrink: int = 1, minor: int = 0, classes: int = 1000) -> None:
        super().__init__()
        channels, size = STEMS[minor]
        width = channels // shrink
        layers: list[nn.Module] = [
            nn.Conv2d(3, width, size, stride=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, ceil_mode=True),
        ]
        for number, (squeezed, expanded) in enumerate(FIRES, start=2):
            layers.append(Fire(width, squeezed // shrink, expanded // shrink))
            width = 2 * (expanded // shrink)
            if number in POOLED[minor]:
                layers.append(nn.MaxPool2d(3, stride=2, ceil_mode=True))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.5), conv(width, classes, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


def build(batch: int = 32, image: int = 224, shrink: int = 1, minor: int = 0) -> tuple[nn.Module, Tensor]:
    return he_normal(SqueezeNet(shrink, minor)), images(batch, image)
