"""Random weights that keep activations and gradients of sane size through a deep network."""

from __future__ import annotations

from torch import nn


def he_normal(model: nn.Module) -> nn.Module:
    """He initialisation (arXiv 1502.01852) of convolutions and linear layers, zero biases."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model
