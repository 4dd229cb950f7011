"""DSSD 321 with ResNet-101 (arXiv 1701.06659) on VOC, as in chengyangfu/caffe; 17080 default boxes.

After SSD's ladder of maps a second one leads back up by deconvolutions; each joins the map of its size by a
product. A residual block stands before every prediction. All normalisation is fixed, as in the last stage of
the authors' training. NMS is one dense step over a fixed number of candidates, in inference only.
"""

from __future__ import annotations

from torch import Tensor, nn

from reference_workloads.detection.backbones import Bottleneck, FrozenNorm, ResNet
from reference_workloads.detection.single_shot import SingleShot, default_boxes
from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images

CLASSES = 21
CELLS = (40, 20, 10, 5, 3, 1)
SIZES = (0.1, 0.2, 0.38, 0.56, 0.74, 0.92, 1.1)
RATIOS = (1.6, 2.0, 3.0)
KERNELS = (5, 5, 3, 3, 3, 3)

DOWN = ((2, 2), (2, 2), (3, 1), (3, 1))
"""Kernel and stride of the steps from 20x20 cells to 10, 5, 3 and 1."""

UP = ((3, 1), (3, 1), (2, 2), (2, 2), (2, 2))
"""Kernel and stride of the deconvolutions from 1 cell to 3, 5, 10, 20 and 40."""


def conv(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), FrozenNorm(outputs))


class Join(nn.Module):
    """A deconvolution of the coarser map times two convolutions of the finer one."""

    def __init__(self, coarse: int, fine: int, width: int, size: int, stride: int) -> None:
        super().__init__()
        self.up = nn.Sequential(nn.ConvTranspose2d(coarse, width, size, stride=stride), conv(width, width))
        self.across = nn.Sequential(conv(fine, width), nn.ReLU(inplace=True), conv(width, width))

    def forward(self, coarse: Tensor, fine: Tensor) -> Tensor:
        return nn.functional.relu(self.up(coarse) * self.across(fine), inplace=True)


class Features(nn.Module):
    """Six maps at 40 to 1 cells, each after the residual block of its prediction."""

    def __init__(self, shrink: int = 1) -> None:
        super().__init__()
        self.backbone = ResNet(101, shrink, FrozenNorm, strides=(1, 2, 2, 1), dilation=2, caffe=True)
        narrow, width, wide = 256 // shrink, 512 // shrink, 1024 // shrink
        fine = [self.backbone.widths[1], self.backbone.widths[3]]
        self.down = nn.ModuleList()
        for size, stride in DOWN:
            block = Bottleneck(fine[-1], narrow, wide, FrozenNorm, stride, caffe=True, size=size)
            self.down.append(block)
            fine.append(wide)
        self.up = nn.ModuleList()
        coarse = fine.pop()
        for size, stride in UP:
            self.up.append(Join(coarse, fine.pop(), width, size, stride))
            coarse = width
        self.before = nn.ModuleList(
            Bottleneck(inputs, narrow, wide, FrozenNorm, project=True) for inputs in (*[width] * 5, wide)
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        stages = self.backbone(x)
        maps = [stages[1], stages[3]]
        for block in self.down:
            maps.append(block(maps[-1]))
        joined = [maps.pop()]
        for join in self.up:
            joined.append(join(joined[-1], maps.pop()))
        return [block(x) for block, x in zip(self.before, reversed(joined), strict=True)]


def build(batch: int = 1, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`shrink` divides every channel count but those of the predictions."""
    cells = len(CELLS)
    model = SingleShot(
        Features(shrink),
        [1024 // shrink] * cells,
        default_boxes(CELLS, SIZES, [RATIOS] * cells),
        [2 + 2 * len(RATIOS)] * cells,
        CLASSES,
        kernels=KERNELS,
    )
    return he_normal(model), images(batch, 321)
