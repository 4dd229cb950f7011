"""RNN transducer (arXiv 1811.06621) with the sizes of MLPerf inference; 45.3 M parameters.

Two LSTMs of 1024 over the audio, two time steps stacked into one, three more LSTMs; two LSTMs of 320 over the
text; a joint network of 512 for each pair of a time step and a character. Both sequences are given, as in
training: MLPerf inference decodes greedily, step by step, in a loop that depends on the data. The first joint
layer is split in two, one half for each sequence, which equals the layer of their concatenation.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.synthetic import tokens

FEATURES = 3 * 80
"""Three frames of 80 log-mel bands, spliced: 30 ms a time step."""

STACK = 2
CHARACTERS = 29
"""The last one is the blank, which is never an input."""

DROPOUT = 0.32


def lstm(inputs: int, hidden: int, layers: int) -> nn.LSTM:
    return nn.LSTM(inputs, hidden, layers, dropout=DROPOUT, batch_first=True)


class RNNT(nn.Module):
    def __init__(self, hidden: int = 1024) -> None:
        super().__init__()
        prediction, joint = 5 * hidden // 16, hidden // 2
        self.before = lstm(FEATURES, hidden, 2)
        self.after = lstm(STACK * hidden, hidden, 3)
        self.embedding = nn.Embedding(CHARACTERS - 1, prediction)
        self.prediction = lstm(prediction, prediction, 2)
        self.from_audio = nn.Linear(hidden, joint)
        self.from_text = nn.Linear(prediction, joint, bias=False)
        self.characters = nn.Sequential(nn.ReLU(), nn.Dropout(DROPOUT), nn.Linear(joint, CHARACTERS))

    def forward(self, audio: Tensor, text: Tensor) -> Tensor:
        """audio: (batch, steps, 240); text: (batch, length). Logits, (batch, steps / 2, length + 1, 29)."""
        heard = self.from_audio(self.encode(audio))
        # A zero vector starts the text.
        before = nn.functional.pad(self.embedding(text), (0, 0, 1, 0))
        said = self.from_text(self.prediction(before)[0])
        return self.characters(heard[:, :, None] + said[:, None])

    def encode(self, audio: Tensor) -> Tensor:
        x, _ = self.before(audio)
        stacked = x.reshape(x.shape[0], x.shape[1] // STACK, -1)
        return self.after(stacked)[0]


def build(
    batch: int = 2, frames: int = 300, sequence: int = 40, hidden: int = 1024
) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """`frames` is the length of the audio in hundredths of a second, `sequence` that of the text."""
    steps = frames // (3 * STACK) * STACK
    return RNNT(hidden), (torch.randn(batch, steps, FEATURES), tokens(CHARACTERS - 1, batch, sequence))
