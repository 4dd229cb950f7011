"""Agents of Atari's Breakout, which see the last four frames, grey, 84 x 84.

A3C (arXiv 1602.01783): two convolutions, 256 dense, an LSTM of 256, policy and value; 1.2 M parameters. `batch` actors
and the five steps between updates, run as one. TBD measures the other network of the paper, the same without the LSTM,
with 32 actors.

Deep Q learning: the network of Nature 2015, 1.69 M parameters, and an older copy as target. In training both networks
run, one on the states and the target on those that followed, which gives the errors of the chosen actions' values.
Inference is the values of the actions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

FRAMES, SIZE = 4, 84
ACTIONS = 4
DISCOUNT = 0.99


def screens(*shape: int) -> Tensor:
    """Brightness between 0 and 1, (*shape, 4, 84, 84)."""
    return torch.rand(*shape, FRAMES, SIZE, SIZE)


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


def a3c(batch: int = 32, sequence: int = 5, shrink: int = 1) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """`sequence` is the number of steps between updates."""
    state, cell = torch.randn(2, 1, batch, 256 // shrink) / 10
    return A3C(shrink), (screens(batch, sequence), state, cell)


def q_network(shrink: int) -> nn.Sequential:
    """`shrink` divides every width but the actions'."""
    narrow, wide, hidden = 32 // shrink, 64 // shrink, 512 // shrink
    return nn.Sequential(
        nn.Conv2d(FRAMES, narrow, 8, stride=4),
        nn.ReLU(),
        nn.Conv2d(narrow, wide, 4, stride=2),
        nn.ReLU(),
        nn.Conv2d(wide, wide, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(wide * 7 * 7, hidden),
        nn.ReLU(),
        nn.Linear(hidden, ACTIONS),
    )


class DQN(nn.Module):
    def __init__(self, shrink: int = 1) -> None:
        super().__init__()
        self.online = q_network(shrink)
        self.target = q_network(shrink).requires_grad_(False)

    def forward(self, state: Tensor, action: Tensor, reward: Tensor, ended: Tensor, following: Tensor) -> Tensor:
        """state, following: (batch, 4, 84, 84); others (batch,). Values (batch, 4), or errors (batch,)."""
        values = self.online(state)
        if not self.training:
            return values
        with torch.no_grad():
            wanted = reward + DISCOUNT * (1 - ended) * self.target(following).amax(1)
        return values.gather(1, action[:, None]).squeeze(1) - wanted


def dqn(batch: int = 32, shrink: int = 1) -> tuple[nn.Module, tuple[Tensor, ...]]:
    action = torch.randint(ACTIONS, (batch,))
    reward = torch.randint(-1, 2, (batch,)).float()
    ended = (torch.rand(batch) < 0.01).float()
    return DQN(shrink), (screens(batch), action, reward, ended, screens(batch))
