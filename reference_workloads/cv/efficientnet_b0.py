"""EfficientNet-B0 (arXiv 1905.11946) from transformers; 5.3 M parameters, 0.39 G multiply-adds an image.

MobileNetV2's inverted residuals with 3x3 and 5x5 depthwise convolutions, swish, and squeeze and excitation.
"""

from __future__ import annotations

from torch import Tensor, nn
from transformers import EfficientNetConfig, EfficientNetForImageClassification

from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images


def build(batch: int = 32, image: int = 224, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`shrink` divides every channel count but the classes', rounded to multiples of 8 as the paper does."""
    config = EfficientNetConfig(
        image_size=image,
        width_coefficient=1 / shrink,
        depth_coefficient=1.0,
        hidden_dim=1280 // shrink,
        dropout_rate=0.2,
        num_labels=1000,
    )
    model = he_normal(EfficientNetForImageClassification(config))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)  # the library's are near 0.02, and activations vanish
    # The library pools with a 1280 x 1280 window cut at the edges of the map: the same mean.
    model.efficientnet.pooler = nn.AdaptiveAvgPool2d(1)
    return model, images(batch, image)
