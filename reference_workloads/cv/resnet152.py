"""ResNet-152 v1.5 (arXiv 1512.03385) from transformers; 60.2 M parameters, 11.5 G multiply-adds an image."""

from __future__ import annotations

from torch import Tensor, nn

from reference_workloads.cv.resnets import resnet
from reference_workloads.synthetic import images

DEPTHS = (3, 8, 36, 3)


def build(batch: int = 4, image: int = 224, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return resnet(DEPTHS, shrink), images(batch, image)
