"""The smallest workload of one's own: a function that returns a model and its inputs.

    statsnet profile examples/own_model.py:make --batch 64 --set width=1024 -o own.json

Keyword arguments with defaults can be set on the command line. The file is read on this machine only;
a signature holds statistics of operators, never names, values or code.
"""

from __future__ import annotations

import torch
from torch import nn


def make(batch: int = 32, width: int = 512) -> tuple[nn.Module, torch.Tensor]:
    up, down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    model = nn.Sequential(up, nn.GELU(), down, nn.LayerNorm(width))
    return model, torch.randn(batch, width)


def trained(batch: int = 32, width: int = 512) -> dict[str, object]:
    """The same with a loss, an optimizer and batches of varying length."""
    model, _ = make(batch, width)
    return {
        "model": model,
        "inputs": [(torch.randn(batch, length, width), {}) for length in (8, 16, 32)],
        "loss": lambda outputs: outputs.square().mean(),
        "optimizer": "adamw",
    }
