"""What an agent sees of Atari's Breakout: the last four frames, grey, 84 x 84."""

from __future__ import annotations

import torch
from torch import Tensor

FRAMES, SIZE = 4, 84
ACTIONS = 4


def screens(*shape: int) -> Tensor:
    """Brightness between 0 and 1, (*shape, 4, 84, 84)."""
    return torch.rand(*shape, FRAMES, SIZE, SIZE)
