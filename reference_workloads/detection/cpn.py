"""Cascaded pyramid network (arXiv 1711.07319), ResNet-50, as in chenyilun95/tf-cpn; 27.0 M parameters.

GlobalNet turns every stage into heatmaps of 17 keypoints; RefineNet runs the more bottlenecks the coarser a
map is, and joins them. As in that code, normalisation follows the last convolutions too, and the stride is in
the 3x3 ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from reference_workloads.detection.backbones import Bottleneck, ResNet
from reference_workloads.initial import he_normal

KEYPOINTS = 17


def conv(inputs: int, outputs: int, size: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False), nn.BatchNorm2d(outputs))


def resize(x: Tensor, size: Sequence[int]) -> Tensor:
    return nn.functional.interpolate(x, size=size, mode="bilinear", align_corners=False)


class GlobalNet(nn.Module):
    """A feature pyramid, and heatmaps of every level at the size of the finest."""

    def __init__(self, inputs: Sequence[int], width: int) -> None:
        super().__init__()
        self.lateral = nn.ModuleList(
            nn.Sequential(conv(channels, width, 1), nn.ReLU(inplace=True)) for channels in inputs
        )
        self.merge = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in inputs[:-1])
        self.heat = nn.ModuleList(
            nn.Sequential(conv(width, width, 1), nn.ReLU(inplace=True), conv(width, KEYPOINTS, 3)) for _ in inputs
        )

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        x = self.lateral[-1](maps[-1])
        levels = [x]
        for index in reversed(range(len(maps) - 1)):
            lateral = self.lateral[index](maps[index])
            x = lateral + self.merge[index](resize(x, lateral.shape[-2:]))
            levels.insert(0, x)
        return levels

    def heatmaps(self, levels: Sequence[Tensor]) -> list[Tensor]:
        size = levels[0].shape[-2:]
        return [resize(heat(x), size) for heat, x in zip(self.heat, levels, strict=True)]


class RefineNet(nn.Module):
    """As many bottlenecks as the level's index, then all levels together at the size of the finest."""

    def __init__(self, levels: int, width: int) -> None:
        super().__init__()
        inner = width // 2
        self.deepen = nn.ModuleList(
            nn.Sequential(*(Bottleneck(width, inner, width, nn.BatchNorm2d) for _ in range(level)))
            for level in range(levels)
        )
        self.join = Bottleneck(levels * width, inner, width, nn.BatchNorm2d)
        self.heat = conv(width, KEYPOINTS, 3)

    def forward(self, levels: Sequence[Tensor]) -> Tensor:
        size = levels[0].shape[-2:]
        deep = [resize(layers(x), size) for layers, x in zip(self.deepen, levels, strict=True)]
        return self.heat(self.join(torch.cat(deep, dim=1)))


class CPN(nn.Module):
    """Returns the refined heatmaps, (batch, 17, height / 4, width / 4), in training also GlobalNet's four."""

    def __init__(self, shrink: int = 1) -> None:
        super().__init__()
        width = 256 // shrink
        self.backbone = ResNet(50, shrink)
        self.global_net = GlobalNet(self.backbone.widths, width)
        self.refine_net = RefineNet(len(self.backbone.widths), width)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        levels = self.global_net(self.backbone(x))
        refined = self.refine_net(levels)
        return (refined, *self.global_net.heatmaps(levels)) if self.training else refined


def build(batch: int = 4, image: int = 384, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`image` is the height; the width is 3/4 of it, as of a standing person."""
    return he_normal(CPN(shrink)), torch.randn(batch, 3, image, image * 3 // 4)
