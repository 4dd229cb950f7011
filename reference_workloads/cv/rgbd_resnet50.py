"""ResNet-50 on colour and depth that tells 253 faces apart: AIBench's 3D face recognition; 24.0 M parameters.

As in Xiong et al., Improving RGB-D face recognition via transfer learning from a pretrained 2D network (Bench
2019): only the first convolution, which takes a fourth channel, and the classes differ from ResNet-50.
"""

from __future__ import annotations

from torch import Tensor, nn

from reference_workloads.cv.resnets import resnet
from reference_workloads.synthetic import images

DEPTHS = (3, 4, 6, 3)
CHANNELS, FACES = 4, 253


def build(batch: int = 16, image: int = 224, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return resnet(DEPTHS, shrink, CHANNELS, FACES), images(batch, image, CHANNELS)
