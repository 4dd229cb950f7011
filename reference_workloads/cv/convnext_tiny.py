"""ConvNeXt-T (arXiv 2201.03545), sizes as in facebookresearch/ConvNeXt; 28.6 M parameters.

A convolutional network in a transformer's clothes: 7x7 depthwise convolutions, layer normalisation, and two
linear layers on channels-last maps. In plain torch, since transformers' own reads numbers back from tensors
while it is built, which fake tensors cannot do.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images

DEPTHS = (3, 3, 9, 3)
WIDTHS = (96, 192, 384, 768)
DROPPED = 0.1
"""Share of images that the last block leaves unchanged in training; less for earlier ones."""

EPSILON = 1e-6


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation of (batch, channels, height, width) over the channels."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class StochasticDepth(nn.Module):
    """In training, zeroes the branch for a share of the images (arXiv 1603.09382)."""

    def __init__(self, dropped: float) -> None:
        super().__init__()
        self.dropped = dropped

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.dropped == 0:
            return x
        kept = torch.rand(x.shape[0], 1, 1, 1, device=x.device) >= self.dropped
        return x * kept / (1 - self.dropped)


class Block(nn.Module):
    def __init__(self, width: int, dropped: float) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=EPSILON)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.scale = nn.Parameter(torch.full((width,), 1e-6))
        self.drop = StochasticDepth(dropped)

    def forward(self, x: Tensor) -> Tensor:
        branch = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        branch = self.scale * self.layers(branch)
        return x + self.drop(branch.permute(0, 3, 1, 2))


class ConvNeXt(nn.Module):
    """`shrink` divides every channel count but the classes'."""

    def __init__(self, shrink: int = 1, classes: int = 1000) -> None:
        super().__init__()
        width = WIDTHS[0] // shrink
        layers: list[nn.Module] = [nn.Conv2d(3, width, 4, stride=4), ChannelNorm(width, eps=EPSILON)]
        done, last = 0, sum(DEPTHS) - 1
        for stage, depth in enumerate(DEPTHS):
            if stage:
                wider = WIDTHS[stage] // shrink
                layers += [ChannelNorm(width, eps=EPSILON), nn.Conv2d(width, wider, 2, stride=2)]
                width = wider
            for _ in range(depth):
                layers.append(Block(width, DROPPED * done / last))
                done += 1
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.LayerNorm(width, eps=EPSILON), nn.Linear(width, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


def build(batch: int = 8, image: int = 224, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return he_normal(ConvNeXt(shrink)), images(batch, image)
