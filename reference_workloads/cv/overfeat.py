"""OverFeat, the fast model (arXiv 1312.6229) as in soumith/convnet-benchmarks; 145.9 M parameters.

231 x 231 images, large kernels without padding in the first two layers, and a first fully connected layer
that holds three quarters of the weights.
"""

from __future__ import annotations

from torch import Tensor, nn

from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images

IMAGE = 231
SIDE = 6
"""Of the last feature map."""


class OverFeat(nn.Module):
    """`shrink` divides every channel count but the classes'."""

    def __init__(self, shrink: int = 1, classes: int = 1000) -> None:
        super().__init__()
        a, b, c, d = (width // shrink for width in (96, 256, 512, 1024))
        e, f = 3072 // shrink, 4096 // shrink
        self.features = nn.Sequential(
            nn.Conv2d(3, a, 11, stride=4),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(a, b, 5),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(b, c, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(c, d, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(d, d, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Dropout(0.5),
            nn.Linear(d * SIDE**2, e),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.Linear(e, f),
            nn.ReLU(inplace=True),
            nn.Linear(f, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


def build(batch: int = 16, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return he_normal(OverFeat(shrink)), images(batch, IMAGE)
