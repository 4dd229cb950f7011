"""3D U-Net as in MLPerf (KiTS19): the network of nnU-Net (arXiv 1809.10486) from monai; 31.2 M parameters.

Same layers as mlcommons/training's image_segmentation/pytorch: instance normalisation, leaky ReLU, strided
convolutions down, transposed ones with a bias up, one output.
"""

from __future__ import annotations

import torch
from monai.networks.nets import DynUNet
from torch import Tensor, nn

FILTERS = (32, 64, 128, 256, 320, 320)
CLASSES = 3


def build(batch: int = 1, image: int = 64, levels: int = 6, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`image` is the side of the cube, `shrink` divides every channel count but the classes'."""
    model = DynUNet(
        spatial_dims=3,
        in_channels=1,
        out_channels=CLASSES,
        kernel_size=[3] * levels,
        strides=[1, *[2] * (levels - 1)],
        upsample_kernel_size=[2] * (levels - 1),
        filters=[width // shrink for width in FILTERS[:levels]],
        norm_name=("INSTANCE", {"affine": True}),
        trans_bias=True,
    )
    return model, torch.randn(batch, 1, image, image, image)
