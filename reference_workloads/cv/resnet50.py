"""ResNet-50 v1.5 from transformers; 25.6 M parameters, 4.09 G multiply-adds an image."""

from __future__ import annotations

from torch import Tensor, nn
from transformers import ResNetConfig, ResNetForImageClassification

from reference_workloads.synthetic import images


def build(batch: int = 4, image: int = 224, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`shrink` divides every channel count but the classes'."""
    config = ResNetConfig(
        embedding_size=64 // shrink,
        hidden_sizes=[width // shrink for width in (256, 512, 1024, 2048)],
        depths=[3, 4, 6, 3],
        layer_type="bottleneck",
        downsample_in_bottleneck=False,
        num_labels=1000,
    )
    return ResNetForImageClassification(config), images(batch, image)
