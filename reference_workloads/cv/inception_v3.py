"""Inception v3 (arXiv 1512.00567) on 299 x 299 images, layers as in torchvision; 23.8 M parameters.

Long thin convolutions (1x7 and 7x1, 1x3 and 3x1) in parallel branches, with batch normalisation after each.
Without the auxiliary classifier, which the TensorFlow benchmarks leave out by default.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images


def conv(inputs: int, outputs: int, size: int | tuple[int, int], stride: int = 1, same: bool = True) -> nn.Sequential:
    """Convolution, batch normalisation, rectifier; padded to keep the map's size unless not `same`."""
    height, width = (size, size) if isinstance(size, int) else size
    padding = (height // 2, width // 2) if same else (0, 0)
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, (height, width), stride=stride, padding=padding, bias=False),
        nn.BatchNorm2d(outputs, eps=0.001),
        nn.ReLU(inplace=True),
    )


class Branches(nn.Module):
    """The channels of all branches, one after the other."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def pooled(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.AvgPool2d(3, stride=1, padding=1), conv(inputs, outputs, 1))


def squares(inputs: int, last: int, shrink: int) -> Branches:
    """For the 35 x 35 map: 3x3 convolutions, and one 5x5. `last` is the width of the pooled branch."""
    a, b, c = 48 // shrink, 64 // shrink, 96 // shrink
    return Branches(
        conv(inputs, b, 1),
        nn.Sequential(conv(inputs, a, 1), conv(a, b, 5)),
        nn.Sequential(conv(inputs, b, 1), conv(b, c, 3), conv(c, c, 3)),
        pooled(inputs, last),
    )


def sevens(inputs: int, hidden: int, shrink: int) -> Branches:
    """For the 17 x 17 map: 7x7 convolutions, factorised."""
    a = 192 // shrink
    return Branches(
        conv(inputs, a, 1),
        nn.Sequential(conv(inputs, hidden, 1), conv(hidden, hidden, (1, 7)), conv(hidden, a, (7, 1))),
        nn.Sequential(
            conv(inputs, hidden, 1),
            conv(hidden, hidden, (7, 1)),
            conv(hidden, hidden, (1, 7)),
            conv(hidden, hidden, (7, 1)),
            conv(hidden, a, (1, 7)),
        ),
        pooled(inputs, a),
    )


def fans(inputs: int, shrink: int) -> Branches:
    """For the 8 x 8 map: 1x3 and 3x1 convolutions side by side."""
    a, b, c, d = 192 // shrink, 320 // shrink, 384 // shrink, 448 // shrink
    return Branches(
        conv(inputs, b, 1),
        nn.Sequential(conv(inputs, c, 1), Branches(conv(c, c, (1, 3)), conv(c, c, (3, 1)))),
        nn.Sequential(conv(inputs, d, 1), conv(d, c, 3), Branches(conv(c, c, (1, 3)), conv(c, c, (3, 1)))),
        pooled(inputs, a),
    )


def to_17(inputs: int, shrink: int) -> Branches:
    a, b, c = 64 // shrink, 96 // shrink, 384 // shrink
    return Branches(
        conv(inputs, c, 3, stride=2, same=False),
        nn.Sequential(conv(inputs, a, 1), conv(a, b, 3), conv(b, b, 3, stride=2, same=False)),
        nn.MaxPool2d(3, stride=2),
    )


def to_8(inputs: int, shrink: int) -> Branches:
    a, b = 192 // shrink, 320 // shrink
    return Branches(
        nn.Sequential(conv(inputs, a, 1), conv(a, b, 3, stride=2, same=False)),
        nn.Sequential(conv(inputs, a, 1), conv(a, a, (1, 7)), conv(a, a, (7, 1)), conv(a, a, 3, stride=2, same=False)),
        nn.MaxPool2d(3, stride=2),
    )


class InceptionV3(nn.Module):
    """`shrink` divides every channel count but the classes'."""

    def __init__(self, shrink: int = 1, classes: int = 1000) -> None:
        super().__init__()
        a, b, c, d = 32 // shrink, 64 // shrink, 80 // shrink, 192 // shrink
        e, f, g, h, i = (width // shrink for width in (256, 288, 768, 1280, 2048))
        self.features = nn.Sequential(
            conv(3, a, 3, stride=2, same=False),
            conv(a, a, 3, same=False),
            conv(a, b, 3),
            nn.MaxPool2d(3, stride=2),
            conv(b, c, 1),
            conv(c, d, 3, same=False),
            nn.MaxPool2d(3, stride=2),
            squares(d, a, shrink),
            squares(e, b, shrink),
            squares(f, b, shrink),
            to_17(f, shrink),
            *(sevens(g, hidden // shrink, shrink) for hidden in (128, 160, 160, 192)),
            to_8(g, shrink),
            fans(h, shrink),
            fans(i, shrink),
        )
        self.classifier = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(i, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


def build(batch: int = 8, image: int = 299, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return he_normal(InceptionV3(shrink)), images(batch, image)
