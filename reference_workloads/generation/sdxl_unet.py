"""The denoising network of Stable Diffusion XL base (arXiv 2307.01952) from diffusers; 2.57 B parameters.

One step of denoising: latents an eighth of the image's side, conditioned on 77 text vectors. The weights
alone are 10.3 GB in float32 and training with AdamW takes four times that, so the preset `small` has two of
the ten transformer layers in each block of the lowest level; only `standard` is the whole model.
"""

from __future__ import annotations

import torch
from diffusers import UNet2DConditionModel
from torch import nn

WIDTHS = (320, 640, 1280)
HEAD = 64
GROUPS = 32
TEXT, POOLED, NUMBER = 2048, 1280, 256
"""Widths of a text vector, of the whole text's vector and of the embedding of each size."""

SIZES = 6
"""Original height and width, top and left of the crop, height and width wanted."""

TRAINING_STEPS = 1000


def build(
    batch: int = 1, image: int = 128, text: int = 77, layers: int = 10, shrink: int = 1
) -> tuple[nn.Module, tuple[()], dict[str, object]]:
    """`layers` counts the transformer layers in a block of the lowest level; `shrink` divides widths."""
    widths = [width // shrink for width in WIDTHS]
    model = UNet2DConditionModel(
        sample_size=image // 8,
        block_out_channels=widths,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        transformer_layers_per_block=[1, 2, layers],
        attention_head_dim=[max(1, width // HEAD) for width in widths],  # misnamed: the number of heads
        norm_num_groups=GROUPS // shrink,
        cross_attention_dim=TEXT // shrink,
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=NUMBER // shrink,
        projection_class_embeddings_input_dim=(POOLED + SIZES * NUMBER) // shrink,
    )
    sizes = torch.tensor([image, image, 0, 0, image, image], dtype=torch.float32)
    inputs: dict[str, object] = {
        "sample": torch.randn(batch, 4, image // 8, image // 8),
        "timestep": torch.randint(0, TRAINING_STEPS, (batch,)),
        "encoder_hidden_states": torch.randn(batch, text, TEXT // shrink),
        "added_cond_kwargs": {
            "text_embeds": torch.randn(batch, POOLED // shrink),
            "time_ids": sizes.repeat(batch, 1),
        },
    }
    return model, (), inputs
