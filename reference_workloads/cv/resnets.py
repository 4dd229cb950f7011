"""Bottleneck ResNets, version 1.5 (stride in the 3x3 convolution), from transformers.

ResNet-50: 25.6 M parameters, 4.09 G multiply-adds an image. ResNet-152 (arXiv 1512.03385): 60.2 M, 11.5 G. And
ResNet-50 on colour and depth that tells 253 faces apart, AIBench's 3D face recognition, 24.0 M: as in Xiong et al.,
Improving RGB-D face recognition via transfer learning from a pretrained 2D network (Bench 2019), only the first
convolution, which takes a fourth channel, and the classes differ from ResNet-50.
"""

from __future__ import annotations

from torch import Tensor, nn
from transformers import ResNetConfig, ResNetForImageClassification

from reference_workloads.synthetic import images

DEPTHS_50 = (3, 4, 6, 3)
DEPTHS_152 = (3, 8, 36, 3)
CHANNELS, FACES = 4, 253


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


def resnet50(batch: int = 4, image: int = 224, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return resnet(DEPTHS_50, shrink), images(batch, image)


def resnet152(batch: int = 4, image: int = 224, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return resnet(DEPTHS_152, shrink), images(batch, image)


def rgbd_resnet50(batch: int = 16, image: int = 224, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return resnet(DEPTHS_50, shrink, CHANNELS, FACES), images(batch, image, CHANNELS)
