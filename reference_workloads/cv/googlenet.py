"""GoogLeNet, Inception v1 (arXiv 1409.4842), 7.0 M parameters.

As published: local response normalisation, biases, no batch normalisation, 5x5 convolutions in the third
branch. The auxiliary classifiers, which the paper drops at inference, are left out of training too.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images

INCEPTIONS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
"""Table 1 of the paper: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection."""


def conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2), nn.ReLU(inplace=True))


class LocalResponseNorm(nn.Module):
    """Section 3.3 of AlexNet's paper: x / (k + alpha * mean of squares over 5 channels) ** beta.

    Equals torch's, but pools in two dimensions, which every device and dtype knows.
    """

    def forward(self, x: Tensor) -> Tensor:
        squares = x.square().flatten(2).unsqueeze(1)
        mean = nn.functional.avg_pool2d(squares, (5, 1), stride=1, padding=(2, 0))
        return x / (1.0 + 1e-4 * mean.view_as(x)).pow(0.75)


class Inception(nn.Module):
    def __init__(self, inputs: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        ones, reduce3, threes, reduce5, fives, pooled = widths
        self.branch1 = conv(inputs, ones, 1)
        self.branch2 = nn.Sequential(conv(inputs, reduce3, 1), conv(reduce3, threes, 3))
        self.branch3 = nn.Sequential(conv(inputs, reduce5, 1), conv(reduce5, fives, 5))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), conv(inputs, pooled, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class GoogLeNet(nn.Module):
    """`shrink` divides every channel count but the classes'."""

    def __init__(self, shrink: int = 1, classes: int = 1000) -> None:
        super().__init__()
        a, b = 64 // shrink, 192 // shrink
        layers: list[nn.Module] = [
            conv(3, a, 7, stride=2),
            nn.MaxPool2d(3, stride=2, ceil_mode=True),
            LocalResponseNorm(),
            conv(a, a, 1),
            conv(a, b, 3),
            LocalResponseNorm(),
        ]
        inputs = b
        for name, full in INCEPTIONS.items():
            if name.endswith("a"):  # each stage starts on a smaller map
                layers.append(nn.MaxPool2d(3, stride=2, ceil_mode=True))
            widths = tuple(width // shrink for width in full)
            layers.append(Inception(inputs, widths))
            inputs = widths[0] + widths[2] + widths[4] + widths[5]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.4), nn.Linear(inputs, classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


def build(batch: int = 8, image: int = 224, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return he_normal(GoogLeNet(shrink)), images(batch, image)
