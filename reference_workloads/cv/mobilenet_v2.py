"""MobileNetV2 of width 1.0 (arXiv 1801.04381); 3.5 M parameters, 300 M multiply-adds an image."""

from __future__ import annotations

from torch import Tensor, nn

from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Table 2 of the paper: expansion, channels, repeats, stride of the first block."""


def conv(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(inplace=True),
    )


class InvertedResidual(nn.Module):
    """Expand, filter each channel by itself, project linearly; added to the input where shapes agree."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        layers = [conv(inputs, hidden, 1)] if expansion != 1 else []
        self.layers = nn.Sequential(
            *layers,
            conv(hidden, hidden, 3, stride=stride, groups=hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNetV2(nn.Module):
    """`shrink` divides every channel count but the classes'."""

    def __init__(self, shrink: int = 1, classes: int = 1000) -> None:
        super().__init__()
        width, last = 32 // shrink, 1280 // shrink
        layers: list[nn.Module] = [conv(3, width, 3, stride=2)]
        for expansion, channels, repeats, first_stride in STAGES:
            for index in range(repeats):
                stride = first_stride if index == 0 else 1
                layers.append(InvertedResidual(width, channels // shrink, stride, expansion))
                width = channels // shrink
        self.features = nn.Sequential(*layers, conv(width, last, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


def build(batch: int = 8, image: int = 224, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return he_normal(MobileNetV2(shrink)), images(batch, image)
