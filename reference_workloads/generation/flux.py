"""The diffusion transformer of FLUX.1 schnell (black-forest-labs/flux) from diffusers; 11.9 B parameters.

One step of denoising: a token for every 16x16 pixels of the image and those of the text, first in 19 blocks
with weights for each, then in 38 that treat them alike. Few machines hold 12 B parameters, so the preset
`small` has 1 + 2 of the blocks, each of full size (0.7 B parameters); only `standard` is the whole model.
"""

from __future__ import annotations

import torch
from diffusers import FluxTransformer2DModel
from torch import Tensor, nn

HEAD = 128
PATCH = 64
"""Numbers in an image token: 2x2 latents of 16 channels, each latent of 8x8 pixels."""

TEXT, POOLED = 4096, 768
"""Widths of T5-XXL's text vectors and of CLIP's vector of the whole text."""


def positions(side: int) -> Tensor:
    """(0, row, column) of each image token, (side * side, 3)."""
    rows = torch.arange(side).repeat_interleave(side)
    columns = torch.arange(side).repeat(side)
    return torch.stack([torch.zeros_like(rows), rows, columns], dim=1).float()


def build(
    batch: int = 1,
    image: int = 128,
    text: int = 64,
    layers: int = 1,
    single_layers: int = 2,
    heads: int = 24,
) -> tuple[nn.Module, tuple[()], dict[str, Tensor]]:
    """`layers` and `single_layers` count the two kinds of blocks, `text` the text's tokens."""
    model = FluxTransformer2DModel(
        in_channels=PATCH,
        num_layers=layers,
        num_single_layers=single_layers,
        attention_head_dim=HEAD,
        num_attention_heads=heads,
        joint_attention_dim=TEXT,
        pooled_projection_dim=POOLED,
        guidance_embeds=False,
        axes_dims_rope=(16, 56, 56),
    )
    side = image // 16
    inputs = {
        "hidden_states": torch.randn(batch, side * side, PATCH),
        "encoder_hidden_states": torch.randn(batch, text, TEXT),
        "pooled_projections": torch.randn(batch, POOLED),
        "timestep": torch.rand(batch),
        "img_ids": positions(side),
        "txt_ids": torch.zeros(text, 3),
    }
    return model, (), inputs
