"""Recurrent image compression (arXiv 1608.05148), LSTM version with additive reconstruction.

Layers and sizes as in the paper and 1zb/pytorch-image-comp-rnn, which AIBench uses; 35.5 M parameters. Each
iteration encodes what the ones before have missed: convolutional LSTMs, 32 bits for every 16x16 pixels, and
LSTMs with pixel shuffling back to an image. The entropy coder, which the paper trains on the bits by itself,
runs along.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.generation.conv_lstm import State, lstm_update, zero_state
from reference_workloads.generation.entropy_coder import EntropyCoder

BITS = 32
States = list[State] | list[None]


class ConvLSTM(nn.Module):
    def __init__(self, inputs: int, hidden: int, stride: int = 1, hidden_size: int = 1) -> None:
        super().__init__()
        self.hidden = hidden
        self.of_input = nn.Conv2d(inputs, 4 * hidden, 3, stride=stride, padding=1, bias=False)
        self.of_hidden = nn.Conv2d(hidden, 4 * hidden, hidden_size, padding=hidden_size // 2, bias=False)

    def forward(self, x: Tensor, state: State | None) -> State:
        gates = self.of_input(x)
        hidden, cell = state or zero_state(gates, self.hidden)
        return lstm_update(gates + self.of_hidden(hidden), cell)


class Encoder(nn.Module):
    """Halves the side four times."""

    def __init__(self, shrink: int) -> None:
        super().__init__()
        a, b, c = 64 // shrink, 256 // shrink, 512 // shrink
        self.first = nn.Conv2d(3, a, 3, stride=2, padding=1, bias=False)
        widths = ((a, b), (b, c), (c, c))
        self.cells = nn.ModuleList(ConvLSTM(inputs, hidden, stride=2) for inputs, hidden in widths)

    def forward(self, x: Tensor, states: States) -> tuple[Tensor, States]:
        x = self.first(x)
        fresh: list[State] = []
        for cell, state in zip(self.cells, states, strict=True):
            fresh.append(cell(x, state))
            x = fresh[-1][0]
        return x, fresh


class Decoder(nn.Module):
    """Doubles the side four times, each time with a quarter of the channels."""

    def __init__(self, bits: int, shrink: int) -> None:
        super().__init__()
        a, b, c = 128 // shrink, 256 // shrink, 512 // shrink
        self.first = nn.Conv2d(bits, c, 1, bias=False)
        self.cells = nn.ModuleList(
            ConvLSTM(inputs, hidden, hidden_size=size)
            for inputs, hidden, size in ((c, c, 1), (c // 4, c, 1), (c // 4, b, 3), (b // 4, a, 3))
        )
        self.last = nn.Conv2d(a // 4, 3, 1, bias=False)

    def forward(self, x: Tensor, states: States) -> tuple[Tensor, States]:
        x = self.first(x)
        fresh: list[State] = []
        for cell, state in zip(self.cells, states, strict=True):
            fresh.append(cell(x, state))
            x = nn.functional.pixel_shuffle(fresh[-1][0], 2)
        return torch.tanh(self.last(x)) / 2, fresh


class Compressor(nn.Module):
    """`shrink` divides every channel count but the colours'."""

    def __init__(self, iterations: int = 16, shrink: int = 1) -> None:
        super().__init__()
        self.iterations = iterations
        bits = BITS // shrink
        self.encoder, self.decoder = Encoder(shrink), Decoder(bits, shrink)
        self.bits = nn.Conv2d(512 // shrink, bits, 1, bias=False)
        self.coder = EntropyCoder(bits, iterations)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, 3, side, side) in [0, 1] -> what each iteration leaves to do, and the coder's guesses.

        (iterations, batch, 3, side, side) and (iterations, batch, bits, side / 16, side / 16).
        """
        rest = image - 0.5
        encoder: States = [None] * len(self.encoder.cells)
        decoder: States = [None] * len(self.decoder.cells)
        rests, codes = [], []
        for _ in range(self.iterations):
            features, encoder = self.encoder(rest, encoder)
            code = self.binarize(torch.tanh(self.bits(features)))
            restored, decoder = self.decoder(code, decoder)
            rest = rest - restored
            rests.append(rest)
            codes.append(code.detach())
        return torch.stack(rests), torch.stack(self.coder(codes))

    def binarize(self, x: Tensor) -> Tensor:
        """-1 or 1; in training at random with mean x, and as if it were x in the backward pass."""
        if not self.training:
            return torch.sign(x)
        return x + (torch.sign(x + 1 - 2 * torch.rand_like(x)) - x).detach()


def build(batch: int = 2, image: int = 32, iterations: int = 16, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    return Compressor(iterations, shrink), torch.rand(batch, 3, image, image)
