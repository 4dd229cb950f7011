"""wav2vec 2.0 base (arXiv 2006.11477) with a layer of characters, from transformers; 94.4 M parameters.

Seven convolutions over the waveform, then twelve transformer layers, 50 vectors a second. Without the random
masks and dropped layers of training, which would change the shapes from step to step, and with every layer
trained, as in pre-training.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

HEAD = 64
SAMPLES = 160
"""Of 16 kHz audio in a hundredth of a second."""


def build(
    batch: int = 2, frames: int = 200, layers: int = 12, hidden: int = 768, channels: int = 512
) -> tuple[nn.Module, Tensor]:
    """`frames` is the length of the audio in hundredths of a second."""
    config = Wav2Vec2Config(
        vocab_size=32,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // HEAD,
        intermediate_size=4 * hidden,
        conv_dim=(channels,) * 7,
        layerdrop=0.0,
        apply_spec_augment=False,
        mask_time_prob=0.0,
        attn_implementation="sdpa",
    )
    return Wav2Vec2ForCTC(config), torch.randn(batch, frames * SAMPLES)
