"""CLIP ViT-B/32 (arXiv 2103.00020) from transformers; 151.3 M parameters.

An image transformer and a causal text transformer; every image of the batch is compared with every text. As
the authors do, texts are padded to 77 tokens without a mask and read at their last token.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import CLIPConfig, CLIPModel, CLIPTextConfig, CLIPVisionConfig

from reference_workloads.synthetic import images, lengths, tokens

PATCH, HEAD = 32, 64
SHORTEST = 8
"""Tokens of the shortest text, with those that mark its start and end."""


class Clip(nn.Module):
    """Only what the contrastive loss reads, of the library's many outputs."""

    def __init__(self, config: CLIPConfig) -> None:
        super().__init__()
        self.clip = CLIPModel(config)

    def forward(self, pixels: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
        """Two (batch, batch) matrices of logits: texts for each image, and images for each text."""
        outputs = self.clip(input_ids=text, pixel_values=pixels)
        return outputs.logits_per_image, outputs.logits_per_text


def texts(vocabulary: int, batch: int, sequence: int) -> Tensor:
    """Start token, words, end token, zeros; the last two ids of the vocabulary mark start and end."""
    position = torch.arange(sequence)
    end = lengths(batch, sequence, min(SHORTEST, sequence))[:, None] - 1
    words = torch.where(position < end, tokens(vocabulary - 2, batch, sequence), 0)
    marked = torch.where(position == end, vocabulary - 1, words)
    return torch.where(position == 0, vocabulary - 2, marked)


def build(
    batch: int = 8,
    sequence: int = 77,
    image: int = 224,
    layers: int = 12,
    hidden: int = 768,
    vocabulary: int = 49408,
) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """`hidden` is the width of the image transformer, the text transformer has two thirds of it."""
    narrow = hidden * 2 // 3
    text = CLIPTextConfig(
        vocab_size=vocabulary,
        hidden_size=narrow,
        intermediate_size=4 * narrow,
        projection_dim=narrow,
        num_hidden_layers=layers,
        num_attention_heads=narrow // HEAD,
        max_position_embeddings=max(77, sequence),
        bos_token_id=vocabulary - 2,
        eos_token_id=vocabulary - 1,
    )
    vision = CLIPVisionConfig(
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        projection_dim=narrow,
        num_hidden_layers=layers,
        num_attention_heads=hidden // HEAD,
        image_size=image,
        patch_size=PATCH,
    )
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=narrow, attn_implementation="sdpa")
    return Clip(config), (images(batch, image), texts(vocabulary, batch, sequence))
