"""MiniGo, after AlphaGo Zero (Nature 550, 2017), with the sizes of MLPerf training v0.7; 0.74 M parameters.

A 19 x 19 board in 13 planes, six residual blocks of 64, a policy and a value head. Earlier versions of MLPerf
have a 9 x 9 board and nine blocks of 32; AlphaGo Zero itself 19 or 39 blocks of 256.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

BOARD, PLANES = 19, 13
POINTS = BOARD * BOARD
VALUE_HIDDEN = 64


def conv(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs))


def head(inputs: int, planes: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, planes, 1, bias=False),
        nn.BatchNorm2d(planes, affine=False),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(planes * POINTS, outputs),
    )


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(conv(width, width), nn.ReLU(), conv(width, width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.layers(x))


class MiniGo(nn.Module):
    def __init__(self, blocks: int = 6, width: int = 64) -> None:
        super().__init__()
        self.trunk = nn.Sequential(conv(PLANES, width), nn.ReLU(), *(Block(width) for _ in range(blocks)))
        self.policy = head(width, 2, POINTS + 1)
        self.value = nn.Sequential(head(width, 1, VALUE_HIDDEN), nn.ReLU(), nn.Linear(VALUE_HIDDEN, 1), nn.Tanh())

    def forward(self, board: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, 13, 19, 19) -> log probabilities of moves and pass, (batch, 362), and values, (batch,)."""
        x = self.trunk(board)
        return torch.log_softmax(self.policy(x), dim=-1), self.value(x).squeeze(1)


def build(batch: int = 64, blocks: int = 6, width: int = 64) -> tuple[nn.Module, Tensor]:
    board = (torch.rand(batch, PLANES, BOARD, BOARD) < 0.3).float()
    return MiniGo(blocks, width), board
