"""Whisper base (arXiv 2212.04356) from transformers; 74 M parameters by the paper's count.

Always 30 s of audio, and a given text instead of generation: one pass of encoder and decoder. MLPerf
inference measures large-v3 of this family.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import WhisperConfig, WhisperForConditionalGeneration

from reference_workloads.synthetic import tokens

HEAD = 64
BANDS = 80
END_OF_TEXT = 50257


def build(
    batch: int = 1,
    sequence: int = 64,
    frames: int = 3000,
    layers: int = 6,
    hidden: int = 512,
    vocabulary: int = 51865,
) -> tuple[nn.Module, tuple[()], dict[str, Tensor]]:
    """`frames` is the length of the audio in hundredths of a second, `sequence` that of the text."""
    end = min(END_OF_TEXT, vocabulary - 1)
    config = WhisperConfig(
        vocab_size=vocabulary,
        num_mel_bins=BANDS,
        d_model=hidden,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=hidden // HEAD,
        decoder_attention_heads=hidden // HEAD,
        encoder_ffn_dim=4 * hidden,
        decoder_ffn_dim=4 * hidden,
        max_source_positions=frames // 2,
        max_target_positions=max(448, sequence),
        pad_token_id=end,
        bos_token_id=end,
        eos_token_id=end,
        decoder_start_token_id=min(END_OF_TEXT + 1, vocabulary - 1),
        use_cache=False,
        attn_implementation="sdpa",
    )
    inputs = {
        "input_features": torch.randn(batch, BANDS, frames),
        "decoder_input_ids": tokens(vocabulary, batch, sequence),
    }
    return WhisperForConditionalGeneration(config), (), inputs
