"""Deep Speech (arXiv 1412.5567): three dense layers, a bidirectional recurrent one, a dense one; 30.4 M.

Sizes of Mozilla's DeepSpeech, of which AI Matrix runs a copy: 26 cepstral coefficients every 20 ms with nine
frames of context on each side, 2048 units, 29 characters. The recurrent layer is the paper's, which Fathom
has too (1024 wide): no gates, rectified, both directions added. Mozilla and AI Matrix have an LSTM there, in
AI Matrix forward only. The clipping at 20 is left out inside the recurrence, which torch's layer cannot do.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

COEFFICIENTS, CONTEXT = 26, 9
WINDOW = 2 * CONTEXT + 1
CHARACTERS = 29


def dense(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, outputs), nn.Hardtanh(0, 20), nn.Dropout(0.05))


class DeepSpeech(nn.Module):
    def __init__(self, hidden: int = 2048) -> None:
        super().__init__()
        self.before = nn.Sequential(dense(WINDOW * COEFFICIENTS, hidden), dense(hidden, hidden), dense(hidden, hidden))
        self.recurrent = nn.RNN(hidden, hidden, nonlinearity="relu", bidirectional=True)
        self.after = nn.Sequential(dense(hidden, hidden), nn.Linear(hidden, CHARACTERS))

    def forward(self, windows: Tensor) -> Tensor:
        """(batch, frames, 19 * 26) -> log probabilities, (batch, frames, 29)."""
        x, _ = self.recurrent(self.before(windows.transpose(0, 1).contiguous()))
        x = x.unflatten(-1, (2, -1)).sum(2)  # the two directions
        return torch.log_softmax(self.after(x).transpose(0, 1), dim=-1)


def build(batch: int = 4, frames: int = 100, hidden: int = 2048) -> tuple[nn.Module, Tensor]:
    """`frames` is the length of the audio in steps of 20 ms."""
    coefficients = torch.randn(batch, frames + 2 * CONTEXT, COEFFICIENTS)
    windows = coefficients.unfold(1, WINDOW, 1).flatten(2)  # (batch, frames, 26, 19) before
    return DeepSpeech(hidden), windows
