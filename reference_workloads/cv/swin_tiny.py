"""Swin-T (arXiv 2103.14030) from transformers; 28.3 M parameters, 4.5 G multiply-adds an image.

Attention inside windows of 7 x 7 patches that shift by half a window in every second layer (rolls, masks, and
a learned bias for each relative position); four patches merge into one between stages.
"""

from __future__ import annotations

from torch import Tensor, nn
from transformers import SwinConfig, SwinForImageClassification

from reference_workloads.synthetic import images


def build(batch: int = 8, image: int = 224, window: int = 7, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`shrink` divides the channels. The last map, image / 32, must hold at least one window a side."""
    config = SwinConfig(
        image_size=image,
        patch_size=4,
        embed_dim=96 // shrink,
        depths=[2, 2, 6, 2],
        num_heads=[3, 6, 12, 24],
        window_size=window,
        drop_path_rate=0.2,
        num_labels=1000,
        attn_implementation="sdpa",
    )
    return SwinForImageClassification(config), images(batch, image)
