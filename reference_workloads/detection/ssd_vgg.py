"""SSD300 with VGG-16 (arXiv 1512.02325) on VOC, as in weiliu89/caffe; 26.3 M parameters, 8732 default boxes.

Images are 300x300. NMS is one dense step over a fixed number of candidates, in inference only.
"""

from __future__ import annotations

from torch import Tensor, nn

from reference_workloads.detection.backbones import AtrousVGG
from reference_workloads.detection.single_shot import Ladder, SingleShot, default_boxes, step
from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images

CLASSES = 21
CELLS = (38, 19, 10, 5, 3, 1)
SIZES = (0.1, 0.2, 0.37, 0.54, 0.71, 0.88, 1.05)
RATIOS = ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,))
WIDTHS = (512, 1024, 512, 256, 256, 256)


def build(batch: int = 2, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`shrink` divides every channel count but those of the predictions."""
    widths = [width // shrink for width in WIDTHS]
    half, quarter = 256 // shrink, 128 // shrink
    steps = [
        step(widths[1], half, widths[2], stride=2, padding=1),
        step(widths[2], quarter, widths[3], stride=2, padding=1),
        step(widths[3], quarter, widths[4]),
        step(widths[4], quarter, widths[5]),
    ]
    anchors = default_boxes(CELLS, SIZES, RATIOS)
    kinds = [2 + 2 * len(extra) for extra in RATIOS]
    model = SingleShot(Ladder(AtrousVGG(shrink), 2, steps), widths, anchors, kinds, CLASSES)
    return he_normal(model), images(batch, 300)
