"""Wasserstein GAN (arXiv 1701.07875) with fully connected networks, as in martinarjovsky/WassersteinGAN.

Generator and critic have 4 layers of 512. A training step is one update of each; the paper updates the critic
five times as often and clips its weights after each update, which is left out. In inference the generator
runs alone.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.generation.adversarial import frozen
from reference_workloads.synthetic import images

NOISE = 100
COLOURS = 3


def mlp(inputs: int, width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width),
        nn.ReLU(inplace=True),
        nn.Linear(width, width),
        nn.ReLU(inplace=True),
        nn.Linear(width, width),
        nn.ReLU(inplace=True),
        nn.Linear(width, outputs),
    )


class WGAN(nn.Module):
    def __init__(self, width: int = 512, image: int = 64) -> None:
        super().__init__()
        shape = (COLOURS, image, image)
        pixels = COLOURS * image * image
        self.generator = nn.Sequential(mlp(NOISE, width, pixels), nn.Unflatten(1, shape))
        self.critic = nn.Sequential(nn.Flatten(), mlp(pixels, width, 1))

    def forward(self, real: Tensor, noise: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Images and (batch, 100) -> scores, (batch, 1) each; in inference, made-up images.

        The critic's loss is the mean of the second less that of the first, the generator's that of the third.
        """
        fake = self.generator(noise)
        if not self.training:
            return fake
        scores = self.critic(real), self.critic(fake.detach())
        with frozen(self.critic):
            return *scores, self.critic(fake)


def build(batch: int = 256, image: int = 64, width: int = 512) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    return WGAN(width, image), (images(batch, image), torch.randn(batch, NOISE))
