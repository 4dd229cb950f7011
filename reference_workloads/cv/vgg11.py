"""VGG-11, configuration A of arXiv 1409.1556: VGG-16 less one convolution a stage; 132.9 M parameters."""

from __future__ import annotations

from torch import Tensor, nn

from reference_workloads.cv.vgg16 import VGG16
from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images

STAGES = ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2))
"""(channels, 3x3 convolutions) before each max pooling."""


def build(batch: int = 8, image: int = 224, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return he_normal(VGG16(shrink, stages=STAGES)), images(batch, image)
