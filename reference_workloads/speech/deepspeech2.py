"""DeepSpeech 2 (arXiv 1512.02595) as in SeanNaren/deepspeech.pytorch; 41.2 M parameters.

Two convolutions over the spectrogram, then bidirectional GRUs whose directions are added, batch normalisation
between, and 29 characters. The utterances of a batch have one length, as after sorting them by length, so
nothing is packed.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

FREQUENCIES = 161
"""Bins of a 20 ms window at 16 kHz; a frame every 10 ms."""

CHANNELS = 32
CHARACTERS = 29


class SequenceNorm(nn.BatchNorm1d):
    """Batch normalisation of (time, batch, width) over time and batch."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.reshape(-1, x.shape[-1])).view(x.shape)


class Recurrent(nn.Module):
    def __init__(self, inputs: int, hidden: int, norm: bool) -> None:
        super().__init__()
        self.norm = SequenceNorm(inputs) if norm else nn.Identity()
        self.gru = nn.GRU(inputs, hidden, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.gru(self.norm(x))
        return out.view(*out.shape[:2], 2, -1).sum(2)


class DeepSpeech2(nn.Module):
    def __init__(self, hidden: int = 800, layers: int = 5) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, CHANNELS, (41, 11), stride=(2, 2), padding=(20, 5)),
            nn.BatchNorm2d(CHANNELS),
            nn.Hardtanh(0, 20, inplace=True),
            nn.Conv2d(CHANNELS, CHANNELS, (21, 11), stride=(2, 1), padding=(10, 5)),
            nn.BatchNorm2d(CHANNELS),
            nn.Hardtanh(0, 20, inplace=True),
        )
        width = CHANNELS * ((FREQUENCIES + 3) // 4)
        self.recurrent = nn.Sequential(*(Recurrent(hidden if i else width, hidden, norm=i > 0) for i in range(layers)))
        self.norm = SequenceNorm(hidden)
        self.characters = nn.Linear(hidden, CHARACTERS, bias=False)

    def forward(self, spectrogram: Tensor) -> Tensor:
        """(batch, 1, 161, frames) -> log probabilities, (batch, frames / 2, 29)."""
        x = self.convolutions(spectrogram).flatten(1, 2)
        x = self.recurrent(x.permute(2, 0, 1).contiguous())
        return torch.log_softmax(self.characters(self.norm(x)).transpose(0, 1), dim=-1)


def build(batch: int = 4, frames: int = 160, layers: int = 5, hidden: int = 800) -> tuple[nn.Module, Tensor]:
    """`frames` is the length of the audio in hundredths of a second."""
    return DeepSpeech2(hidden, layers), torch.randn(batch, 1, FREQUENCIES, frames)
