"""Backbones shared by the detectors, in plain torch: ResNet by stages, a feature pyramid, VGG-16 as in SSD.

Each returns a list of maps, finest first. `shrink` divides every channel count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from reference_workloads.cv.vgg import STAGES_16 as VGG_STAGES

Norm = Callable[[int], nn.Module]

DEPTHS = {34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
"""Residual blocks of each stage."""

RESIDUAL_SCALE = 0.2


class FrozenNorm(nn.Module):
    """Batch normalisation whose statistics, scale and shift stay fixed, as where a detector is fine-tuned."""

    weight: Tensor
    bias: Tensor
    mean: Tensor
    variance: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(width))
        self.register_buffer("bias", torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        scale = self.weight * (self.variance + 1e-5).rsqrt()
        shift = self.bias - self.mean * scale
        return x * scale[:, None, None] + shift[:, None, None]


def residual_norm(norm: Norm, width: int) -> nn.Module:
    """The norm that ends a residual branch.

    Scaled down: with statistics that are not those of its input, 33 full branches would overflow float16.
    """
    layer = norm(width)
    nn.init.constant_(layer.weight, RESIDUAL_SCALE)
    return layer


def shortcut(inputs: int, outputs: int, norm: Norm, size: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride=stride, bias=False), norm(outputs))


class Basic(nn.Module):
    """Two 3x3 convolutions and a shortcut, as in ResNet-34."""

    def __init__(self, inputs: int, width: int, norm: Norm, stride: int = 1) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=False),
            norm(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            residual_norm(norm, width),
        )
        same = inputs == width and stride == 1
        self.shortcut = nn.Identity() if same else shortcut(inputs, width, norm, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.branch(x) + self.shortcut(x), inplace=True)


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions and a shortcut.

    `caffe` puts the stride into the first convolution, `size` is the kernel of the first convolution and of
    the shortcut (DSSD enlarges it), `project` asks for a convolution in the shortcut where none is needed.
    """

    def __init__(
        self,
        inputs: int,
        width: int,
        outputs: int,
        norm: Norm,
        stride: int = 1,
        *,
        dilation: int = 1,
        groups: int = 1,
        caffe: bool = False,
        size: int = 1,
        project: bool = False,
    ) -> None:
        super().__init__()
        first, second = (stride, 1) if caffe else (1, stride)
        self.branch = nn.Sequential(
            nn.Conv2d(inputs, width, size, stride=first, bias=False),
            norm(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride=second, padding=dilation, dilation=dilation, groups=groups, bias=False),
            norm(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False),
            residual_norm(norm, outputs),
        )
        same = inputs == outputs and stride == size == 1 and not project
        self.shortcut = nn.Identity() if same else shortcut(inputs, outputs, norm, size, stride)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.branch(x) + self.shortcut(x), inplace=True)


def stage(
    depth: int,
    index: int,
    inputs: int,
    norm: Norm,
    shrink: int = 1,
    *,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    caffe: bool = False,
) -> nn.Sequential:
    """Stage `index` (from 0) of a ResNet; the stride is in its first block. Groups make it a ResNeXt."""
    width = (64 << index) // shrink
    inner = 2 * width if groups > 1 else width  # 32x4d: 32 groups of 4 channels in the first stage
    blocks: list[nn.Module] = []
    for block in range(DEPTHS[depth][index]):
        step = stride if block == 0 else 1
        if depth == 34:
            blocks.append(Basic(inputs, width, norm, step))
            inputs = width
        else:
            options = {"dilation": dilation, "groups": groups, "caffe": caffe}
            blocks.append(Bottleneck(inputs, inner, 4 * width, norm, step, **options))
            inputs = 4 * width
    return nn.Sequential(*blocks)


class ResNet(nn.Module):
    """Returns the map of each stage; there are as many stages as `strides`.

    `caffe` is the first published form: the stride in a block's first convolution, and a pooling layer that
    rounds up instead of padding. `dilation` is that of a fourth stage.
    """

    def __init__(
        self,
        depth: int,
        shrink: int = 1,
        norm: Norm = nn.BatchNorm2d,
        *,
        strides: Sequence[int] = (1, 2, 2, 2),
        dilation: int = 1,
        groups: int = 1,
        caffe: bool = False,
    ) -> None:
        super().__init__()
        width = 64 // shrink
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False),
            norm(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, ceil_mode=True) if caffe else nn.MaxPool2d(3, stride=2, padding=1),
        )
        self.stages = nn.ModuleList()
        self.widths: list[int] = []
        for index, stride in enumerate(strides):
            atrous = dilation if index == 3 else 1
            options = {"stride": stride, "dilation": atrous, "groups": groups, "caffe": caffe}
            self.stages.append(stage(depth, index, width, norm, shrink, **options))
            width = (64 << index) // shrink * (1 if depth == 34 else 4)
            self.widths.append(width)

    def forward(self, x: Tensor) -> list[Tensor]:
        x = self.stem(x)
        maps = []
        for layers in self.stages:
            x = layers(x)
            maps.append(x)
        return maps


class FeaturePyramid(nn.Module):
    """Feature pyramid (arXiv 1612.03144): all maps get one width and the content of the coarser ones."""

    def __init__(self, inputs: Sequence[int], width: int) -> None:
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(channels, width, 1) for channels in inputs)
        self.smooth = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in inputs)

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        x = self.lateral[-1](maps[-1])
        levels = [self.smooth[-1](x)]
        for index in reversed(range(len(maps) - 1)):
            lateral = self.lateral[index](maps[index])
            x = lateral + nn.functional.interpolate(x, size=lateral.shape[-2:], mode="nearest")
            levels.insert(0, self.smooth[index](x))
        return levels


class ScaledNorm(nn.Module):
    """Vectors of channels scaled to a learned length, 20 at first (arXiv 1506.04579)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), 20.0))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.normalize(x, dim=1) * self.scale[:, None, None]


def convolutions(inputs: int, width: int, depth: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(inplace=True)]
        inputs = width
    return layers


class AtrousVGG(nn.Module):
    """VGG-16 as in SSD: fc6 and fc7 are convolutions, the first one dilated, after a pooling of stride 1.

    Returns two maps: conv4_3, normalised, at stride 8, and fc7 at stride 16.
    """

    def __init__(self, shrink: int = 1) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = 3
        for index, (channels, depth) in enumerate(VGG_STAGES[:4]):
            if index:
                layers.append(nn.MaxPool2d(2, ceil_mode=True))
            layers += convolutions(width, channels // shrink, depth)
            width = channels // shrink
        self.lower = nn.Sequential(*layers)
        self.norm = ScaledNorm(width)
        channels, depth = VGG_STAGES[4]
        last = 1024 // shrink
        self.upper = nn.Sequential(
            nn.MaxPool2d(2, ceil_mode=True),
            *convolutions(width, channels // shrink, depth),
            nn.MaxPool2d(3, stride=1, padding=1),
            nn.Conv2d(channels // shrink, last, 3, padding=6, dilation=6),
            nn.ReLU(inplace=True),
            nn.Conv2d(last, last, 1),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        x = self.lower(x)
        return [self.norm(x), self.upper(x)]
