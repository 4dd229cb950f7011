"""SSD with ResNet-34 as in MLPerf (inference v0.5, training v0.6), on COCO; 20.0 M parameters.

Two published versions with the same layers but other strides: one for 1200x1200 images in inference, whose
predicting convolutions have stride 3 (15130 default boxes), one for training at 300x300 (8732). The backbone
ends with its third stage, which keeps stride 8. NMS is one dense step over a fixed number of candidates, in
inference only.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from reference_workloads.detection.backbones import ResNet
from reference_workloads.detection.single_shot import Ladder, SingleShot, default_boxes, step
from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images

CLASSES = 81
SIZES = (0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05)
RATIOS = ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,))
WIDTHS = (256, 512, 512, 256, 256, 256)


class Version(NamedTuple):
    head_stride: int
    strides: tuple[int, ...]
    cells: tuple[int, ...]


VERSIONS = {
    300: Version(1, (2, 2, 2, 1, 1), (38, 19, 10, 5, 3, 1)),
    1200: Version(3, (2, 2, 2, 2, 1), (50, 25, 13, 7, 3, 3)),
}
"""By the size of the image."""


def build(batch: int = 4, image: int = 300, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`image` is 300 or 1200; `shrink` divides every channel count but those of the predictions."""
    version = VERSIONS[image]
    widths = [width // shrink for width in WIDTHS]
    middles = [width // shrink for width in (256, 256, 128, 128, 128)]
    paddings = (1, 1, 1, 0, 0)
    steps = [
        step(widths[index], middles[index], widths[index + 1], version.strides[index], paddings[index])
        for index in range(len(paddings))
    ]
    backbone = ResNet(34, shrink, strides=(1, 2, 1))
    model = SingleShot(
        Ladder(backbone, 1, steps),
        widths,
        default_boxes(version.cells, SIZES, RATIOS),
        [2 + 2 * len(extra) for extra in RATIOS],
        CLASSES,
        stride=version.head_stride,
    )
    return he_normal(model), images(batch, image)
