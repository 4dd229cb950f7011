"""Bottleneck ResNets, version 1.5 (stride in the 3x3 convolution), from transformers."""

from __future__ import annotations

from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification


def resnet(depths: tuple[int, ...], shrink: int = 1, channels: int = 3, classes: int = 1000) -> nn.Module:
    """`shrink` divides every channel count but those of the input and the classes."""
    config = ResNetConfig(
        num_channels=channels,
        embedding_size=64 // shrink,
        hidden_sizes=[width // shrink for width in (256, 512, 1024, 2048)],
        depths=list(depths),
        layer_type="bottleneck",
        downsample_in_bottleneck=False,
        num_labels=classes,
    )
    return ResNetForImageClassification(config)
