"""CRNN text recognition (arXiv 1507.05717), layers as in the authors' bgshih/crnn; 8.3 M parameters.

Seven convolutions turn a grey image of a word, 32 pixels high, into a sequence of columns; two bidirectional
LSTMs read it. 36 letters and digits and CTC's blank.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.initial import he_normal

HEIGHT = 32
CLASSES = 37
HIDDEN = 256

WIDTHS = (64, 128, 256, 256, 512, 512, 512)
KERNELS = (3, 3, 3, 3, 3, 3, 2)
NORMALISED = (2, 4, 6)
HALVED, FLATTENED = (0, 1), (3, 5)
"""Convolutions that a pooling follows: of both sides, or of the height only."""


class Recurrent(nn.Module):
    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, bidirectional=True)
        self.output = nn.Linear(2 * hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.lstm(x)
        return self.output(out)


class CRNN(nn.Module):
    """`shrink` divides every channel count but the classes'."""

    def __init__(self, shrink: int = 1) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 1
        for index, (width, size) in enumerate(zip(WIDTHS, KERNELS, strict=True)):
            outputs = width // shrink
            layers.append(nn.Conv2d(inputs, outputs, size, padding=1 if size == 3 else 0))
            if index in NORMALISED:
                layers.append(nn.BatchNorm2d(outputs))
            layers.append(nn.ReLU(inplace=True))
            if index in HALVED:
                layers.append(nn.MaxPool2d(2))
            if index in FLATTENED:
                layers.append(nn.MaxPool2d(2, stride=(2, 1), padding=(0, 1)))
            inputs = outputs
        self.convolutions = nn.Sequential(*layers)
        hidden = HIDDEN // shrink
        self.recurrent = nn.Sequential(Recurrent(inputs, hidden, hidden), Recurrent(hidden, hidden, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 1, 32, width) -> log probabilities, (batch, width / 4 + 1, 37)."""
        columns = self.convolutions(x).squeeze(2).permute(2, 0, 1).contiguous()
        return torch.log_softmax(self.recurrent(columns).transpose(0, 1), dim=-1)


def build(batch: int = 32, width: int = 100, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return he_normal(CRNN(shrink)), torch.randn(batch, 1, HEIGHT, width)
