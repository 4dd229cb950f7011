"""Variational autoencoder (arXiv 1312.6114) on MNIST as in Fathom (rdadolf/fathom): three linear layers.

Fathom's has no hidden layer: pixels give the mean and the logarithm of the variance of 200 latent numbers,
and a sample of these gives the pixels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

PIXELS = 28 * 28


class VAE(nn.Module):
    def __init__(self, latent: int = 200) -> None:
        super().__init__()
        self.mean = nn.Linear(PIXELS, latent)
        self.log_variance = nn.Linear(PIXELS, latent)
        self.decoder = nn.Linear(latent, PIXELS)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(batch, 784) -> the same restored, and mean and logarithm of the variance, (batch, latent)."""
        mean, log_variance = self.mean(x), self.log_variance(x)
        sample = mean + torch.exp(log_variance / 2) * torch.randn_like(mean)
        return self.decoder(sample), mean, log_variance


def build(batch: int = 4096, latent: int = 200) -> tuple[nn.Module, Tensor]:
    """Pixels are standardised, as in Fathom."""
    return VAE(latent), torch.randn(batch, PIXELS)
