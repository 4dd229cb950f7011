"""FaceNet (arXiv 1503.03832) on Inception-ResNet v1 (arXiv 1602.07261); 23.5 M parameters.

Layers as in davidsandberg/facenet and timesler/facenet-pytorch: 160 x 160 faces become 512 numbers of norm 1.
A sample is a triplet (a face, another one of the same person, one of someone else), so `batch` triplets are
three times as many images.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.cv.inception_v3 import Branches, conv
from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images

TRIPLET = 3
EMBEDDING = 512


class Residual(nn.Module):
    """x + scale * (1x1 convolution of the branches), rectified but in the last block."""

    def __init__(self, branches: Branches, joined: int, width: int, scale: float, last: bool = False) -> None:
        super().__init__()
        self.branches = branches
        self.project = nn.Conv2d(joined, width, 1)
        self.scale = scale
        self.activation = nn.Identity() if last else nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(x + self.scale * self.project(self.branches(x)))


def square(width: int, hidden: int, scale: float) -> Residual:
    """For the 17 x 17 map: 3x3 convolutions."""
    branches = Branches(
        conv(width, hidden, 1),
        nn.Sequential(conv(width, hidden, 1), conv(hidden, hidden, 3)),
        nn.Sequential(conv(width, hidden, 1), conv(hidden, hidden, 3), conv(hidden, hidden, 3)),
    )
    return Residual(branches, 3 * hidden, width, scale)


def factorised(width: int, hidden: int, size: int, scale: float, last: bool = False) -> Residual:
    """For the 8 x 8 and 3 x 3 maps: a convolution along each side."""
    branches = Branches(
        conv(width, hidden, 1),
        nn.Sequential(conv(width, hidden, 1), conv(hidden, hidden, (1, size)), conv(hidden, hidden, (size, 1))),
    )
    return Residual(branches, 2 * hidden, width, scale, last)


class FaceNet(nn.Module):
    """`shrink` divides every channel count."""

    def __init__(self, shrink: int = 1) -> None:
        super().__init__()
        a, b, c, d, e = (width // shrink for width in (32, 64, 80, 192, 256))
        f, g, h, i = (width // shrink for width in (384, 896, 1792, 128))
        embedding = EMBEDDING // shrink
        self.features = nn.Sequential(
            conv(3, a, 3, stride=2, same=False),
            conv(a, a, 3, same=False),
            conv(a, b, 3),
            nn.MaxPool2d(3, stride=2),
            conv(b, c, 1),
            conv(c, d, 3, same=False),
            conv(d, e, 3, stride=2, same=False),
            *(square(e, a, 0.17) for _ in range(5)),
            Branches(
                conv(e, f, 3, stride=2, same=False),
                nn.Sequential(conv(e, d, 1), conv(d, d, 3), conv(d, e, 3, stride=2, same=False)),
                nn.MaxPool2d(3, stride=2),
            ),
            *(factorised(g, i, 7, 0.10) for _ in range(10)),
            Branches(
                nn.Sequential(conv(g, e, 1), conv(e, f, 3, stride=2, same=False)),
                nn.Sequential(conv(g, e, 1), conv(e, e, 3, stride=2, same=False)),
                nn.Sequential(conv(g, e, 1), conv(e, e, 3), conv(e, e, 3, stride=2, same=False)),
                nn.MaxPool2d(3, stride=2),
            ),
            *(factorised(h, d, 3, 0.20) for _ in range(5)),
            factorised(h, d, 3, 1.0, last=True),
        )
        self.embed = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Dropout(0.6),
            nn.Linear(h, embedding, bias=False),
            nn.BatchNorm1d(embedding, eps=0.001),
        )

    def forward(self, triplets: Tensor) -> Tensor:
        """(batch, 3 faces, 3 colours, height, width) -> embeddings, (batch, 3, 512)."""
        embeddings = self.embed(self.features(triplets.flatten(0, 1)))
        unit = torch.nn.functional.normalize(embeddings, dim=1)
        return unit.view(triplets.shape[0], TRIPLET, -1)


def build(batch: int = 8, image: int = 160, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    faces = images(batch * TRIPLET, image)
    return he_normal(FaceNet(shrink)), faces.view(batch, TRIPLET, *faces.shape[1:])
