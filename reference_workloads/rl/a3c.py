"""A3C (arXiv 1602.01783) on Atari: two convolutions, 256 dense, an LSTM of 256, policy and value; 1.2 M.

`batch` actors and the five steps between updates, run as one. TBD measures the other network of the paper,
the same without the LSTM, with 32 actors.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.rl.atari import ACTIONS, FRAMES, screens


class A3C(nn.Module):
    """`shrink` divides every width but the actions'."""

    def __init__(self, shrink: int = 1) -> None:
        super().__init__()
        narrow, wide, hidden = 16 // shrink, 32 // shrink, 256 // shrink
        self.see = nn.Sequential(
            nn.Conv2d(FRAMES, narrow, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(narrow, wide, 4, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(wide * 9 * 9, hidden),
            nn.ReLU(),
        )
        self.remember = nn.LSTM(hidden, hidden, batch_first=True)
        self.policy = nn.Linear(hidden, ACTIONS)
        self.value = nn.Linear(hidden, 1)

    def forward(self, seen: Tensor, state: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """seen: (batch, steps, 4, 84, 84); state, cell: (1, batch, hidden).

        Returns log probabilities of the actions, (batch, steps, 4), and values, (batch, steps).
        """
        x = self.see(seen.flatten(0, 1)).unflatten(0, seen.shape[:2])
        x, _ = self.remember(x, (state, cell))
        return torch.log_softmax(self.policy(x), dim=-1), self.value(x).squeeze(-1)


def build(batch: int = 32, sequence: int = 5, shrink: int = 1) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """`sequence` is the number of steps between updates."""
    state, cell = torch.randn(2, 1, batch, 256 // shrink) / 10
    return A3C(shrink), (screens(batch, sequence), state, cell)
