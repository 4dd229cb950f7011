"""AlexNet with one tower (arXiv 1404.5997), 61.1 M parameters, dimensions as in torchvision."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images


class AlexNet(nn.Module):
    """`shrink` divides every channel count but the classes'."""

    def __init__(self, shrink: int = 1, classes: int = 1000) -> None:
        super().__init__()
        a, b, c, d, e = (width // shrink for width in (64, 192, 384, 256, 256))
        hidden = 4096 // shrink
        self.features = nn.Sequential(
            nn.Conv2d(3, a, 11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(a, b, 5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(b, c, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(c, d, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(d, e, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
        )
        self.pool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(0.5),
            nn.Linear(e * 36, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(self.pool(self.features(x)), 1))


def build(batch: int = 8, image: int = 224, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return he_normal(AlexNet(shrink)), images(batch, image)
