"""Pre-activation ResNet-18 for CIFAR-10 (arXiv 1603.05027), 11.2 M parameters.

What several CIFAR-10 entries of DAWNBench start from: 32 x 32 images, no pooling before the last. Widths as
in kuangliu/pytorch-cifar, with the last normalisation that the paper has and that code leaves out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images

IMAGE = 32
WIDTHS = (64, 128, 256, 512)
DEPTH = 2
"""Blocks in each of the four stages."""


class Block(nn.Module):
    """Normalises and activates before each convolution; a shortcut to a new shape starts after the first."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        changes = stride != 1 or inputs != outputs
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False) if changes else None

    def forward(self, x: Tensor) -> Tensor:
        active = torch.relu(self.norm1(x))
        shortcut = x if self.shortcut is None else self.shortcut(active)
        return shortcut + self.conv2(torch.relu(self.norm2(self.conv1(active))))


class CifarResNet(nn.Module):
    """`shrink` divides every channel count but the classes'."""

    def __init__(self, shrink: int = 1, classes: int = 10) -> None:
        super().__init__()
        width = WIDTHS[0] // shrink
        layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1, bias=False)]
        for stage, channels in enumerate(WIDTHS):
            for index in range(DEPTH):
                stride = 2 if stage and index == 0 else 1
                layers.append(Block(width, channels // shrink, stride))
                width = channels // shrink
        self.features = nn.Sequential(*layers, nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.classifier = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


def build(batch: int = 64, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return he_normal(CifarResNet(shrink)), images(batch, IMAGE)
