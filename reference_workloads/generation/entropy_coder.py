"""The entropy coder of recurrent image compression: how likely each bit is, given those sent before it.

Sizes as entropy_coder/progressive in tensorflow/models (arXiv 1608.05148, section 4): within an iteration a
masked convolution and an LSTM over the lines see the bits above and to the left, between iterations another
LSTM passes on what earlier ones sent.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.generation.conv_lstm import State, lstm_update, zero_state


class MaskedConv(nn.Conv2d):
    """Sees only what a raster scan has passed, with `current` also the position that it is at."""

    mask: Tensor

    def __init__(self, inputs: int, outputs: int, size: tuple[int, int], current: bool) -> None:
        row, column = size[0] // 2, size[1] // 2
        super().__init__(inputs, outputs, size, padding=(row, column))
        mask = torch.zeros(size)
        mask[:row] = 1.0
        mask[row, : column + int(current)] = 1.0
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.conv2d(x, self.weight * self.mask, self.bias, padding=self.padding)


def two_convolutions(inputs: int, hidden: int, outputs: int, size: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, hidden, size, padding=size // 2),
        nn.Tanh(),
        nn.Conv2d(hidden, outputs, size, padding=size // 2),
        nn.Tanh(),
    )


class BitPredictor(nn.Module):
    def __init__(self, bits: int) -> None:
        super().__init__()
        self.hidden = 2 * bits
        self.seen = MaskedConv(bits, self.hidden, (7, 7), current=False)
        self.earlier = nn.Conv2d(bits, self.hidden, 3, padding=1)
        self.of_input = MaskedConv(2 * self.hidden, 4 * self.hidden, (1, 3), current=True)
        self.of_line = nn.Conv2d(self.hidden, 4 * self.hidden, (1, 3), padding=(0, 1), bias=False)
        self.guess = two_convolutions(self.hidden, self.hidden, bits, 1)

    def forward(self, code: Tensor, context: Tensor) -> Tensor:
        """Both (batch, bits, height, width); the guesses too, between -1 and 1."""
        x = torch.cat([torch.tanh(self.seen(code)), torch.tanh(self.earlier(context))], dim=1)
        gates = self.of_input(x).split(1, dim=2)
        hidden, cell = zero_state(gates[0], self.hidden)
        lines = []
        for line in gates:
            hidden, cell = lstm_update(line + self.of_line(hidden), cell)
            lines.append(hidden)
        return self.guess(torch.cat(lines, dim=2))


class EntropyCoder(nn.Module):
    def __init__(self, bits: int, iterations: int) -> None:
        super().__init__()
        self.hidden = 2 * bits
        self.predictors = nn.ModuleList(BitPredictor(bits) for _ in range(iterations))
        self.summaries = nn.ModuleList(two_convolutions(bits, self.hidden, bits, 3) for _ in range(iterations - 1))
        self.of_input = nn.Conv2d(bits, 4 * self.hidden, 1)
        self.of_hidden = nn.Conv2d(self.hidden, 4 * self.hidden, 1, bias=False)
        self.context = two_convolutions(self.hidden, self.hidden, bits, 1)

    def forward(self, codes: list[Tensor]) -> list[Tensor]:
        """The code of each iteration, (batch, bits, height, width) -> guesses of its bits."""
        state: State = zero_state(codes[0], self.hidden)
        guesses = [self.predictors[0](codes[0], torch.zeros_like(codes[0]))]
        for index, summary in enumerate(self.summaries):
            gates = self.of_input(summary(codes[index])) + self.of_hidden(state[0])
            state = lstm_update(gates, state[1])
            guesses.append(self.predictors[index + 1](codes[index + 1], self.context(state[0])))
        return guesses
