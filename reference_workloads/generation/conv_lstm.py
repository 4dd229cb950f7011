"""What convolutional LSTMs share: their gates are convolutions of the input and of the hidden state."""

from __future__ import annotations

import torch
from torch import Tensor

State = tuple[Tensor, Tensor]
"""Hidden state and cell."""


def zero_state(like: Tensor, channels: int) -> State:
    """The state before the first step, of the batch and image size of `like`."""
    zeros = like.new_zeros(like.shape[0], channels, *like.shape[2:])
    return zeros, zeros


def lstm_update(gates: Tensor, cell: Tensor) -> State:
    """The next state, from the four gates stacked along the channels."""
    into, forget, candidate, out = gates.chunk(4, dim=1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(into) * torch.tanh(candidate)
    return torch.sigmoid(out) * torch.tanh(cell), cell
