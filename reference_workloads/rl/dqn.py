"""Deep Q learning on Atari: the network of Nature 2015, 1.69 M parameters, and an older copy as target.

In training both networks run, one on the states and the target on those that followed, which gives the errors
of the chosen actions' values. Inference is the values of the actions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.rl.atari import ACTIONS, FRAMES, screens

DISCOUNT = 0.99


def network(shrink: int) -> nn.Sequential:
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
        self.online = network(shrink)
        self.target = network(shrink).requires_grad_(False)

    def forward(self, state: Tensor, action: Tensor, reward: Tensor, ended: Tensor, following: Tensor) -> Tensor:
        """state, following: (batch, 4, 84, 84); others (batch,). Values (batch, 4), or errors (batch,)."""
        values = self.online(state)
        if not self.training:
            return values
        with torch.no_grad():
            wanted = reward + DISCOUNT * (1 - ended) * self.target(following).amax(1)
        return values.gather(1, action[:, None]).squeeze(1) - wanted


def build(batch: int = 32, shrink: int = 1) -> tuple[nn.Module, tuple[Tensor, ...]]:
    action = torch.randint(ACTIONS, (batch,))
    reward = torch.randint(-1, 2, (batch,)).float()
    ended = (torch.rand(batch) < 0.01).float()
    return DQN(shrink), (screens(batch), action, reward, ended, screens(batch))
