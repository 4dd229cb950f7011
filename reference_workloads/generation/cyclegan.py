"""CycleGAN (arXiv 1703.10593) as in junyanz/pytorch-CycleGAN-and-pix2pix: two generators and two critics.

The generators have 9 residual blocks (11.4 M parameters each), the critics judge 70x70 patches (2.8 M each).
A training step passes the generators six times and the critics six times; the pool of 50 earlier images, from
which the code picks at random, is left out. In inference one generator runs.
"""

from __future__ import annotations

from torch import Tensor, nn

from reference_workloads.generation.adversarial import frozen
from reference_workloads.synthetic import images

WIDTH = 64


def norm_relu(channels: int) -> list[nn.Module]:
    return [nn.InstanceNorm2d(channels), nn.ReLU(inplace=True)]


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, padding_mode="reflect"),
            *norm_relu(width),
            nn.Conv2d(width, width, 3, padding=1, padding_mode="reflect"),
            nn.InstanceNorm2d(width),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


def generator(blocks: int, width: int) -> nn.Sequential:
    """A quarter of the side in the middle, with four times the width."""
    return nn.Sequential(
        nn.Conv2d(3, width, 7, padding=3, padding_mode="reflect"),
        *norm_relu(width),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
        *norm_relu(2 * width),
        nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1),
        *norm_relu(4 * width),
        *(Residual(4 * width) for _ in range(blocks)),
        nn.ConvTranspose2d(4 * width, 2 * width, 3, stride=2, padding=1, output_padding=1),
        *norm_relu(2 * width),
        nn.ConvTranspose2d(2 * width, width, 3, stride=2, padding=1, output_padding=1),
        *norm_relu(width),
        nn.Conv2d(width, 3, 7, padding=3, padding_mode="reflect"),
        nn.Tanh(),
    )


def critic(width: int) -> nn.Sequential:
    """PatchGAN: one score for each of overlapping 70x70 patches."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, stride=2, padding=1), nn.LeakyReLU(0.2, inplace=True)]
    for inputs, outputs, stride in ((1, 2, 2), (2, 4, 2), (4, 8, 1)):
        layers += [
            nn.Conv2d(inputs * width, outputs * width, 4, stride=stride, padding=1),
            nn.InstanceNorm2d(outputs * width),
            nn.LeakyReLU(0.2, inplace=True),
        ]
    return nn.Sequential(*layers, nn.Conv2d(8 * width, 1, 4, padding=1))


class CycleGAN(nn.Module):
    def __init__(self, blocks: int = 9, width: int = WIDTH) -> None:
        super().__init__()
        self.to_a, self.to_b = generator(blocks, width), generator(blocks, width)
        self.critic_a, self.critic_b = critic(width), critic(width)

    def forward(self, a: Tensor, b: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Images of two kinds -> `a` as one of kind b; in training all that the losses compare.

        These are the images after a cycle, those that should stay as they are, the scores of the made-up
        images for the generators, and the scores of real and made-up images for the critics.
        """
        fake_b = self.to_b(a)
        if not self.training:
            return fake_b
        fake_a = self.to_a(b)
        cycled = self.to_a(fake_b), self.to_b(fake_a)
        kept = self.to_a(a), self.to_b(b)
        with frozen(self.critic_a, self.critic_b):
            fooled = self.critic_a(fake_a), self.critic_b(fake_b)
        real = self.critic_a(a), self.critic_b(b)
        fake = self.critic_a(fake_a.detach()), self.critic_b(fake_b.detach())
        return *cycled, *kept, *fooled, *real, *fake


def build(
    batch: int = 1, image: int = 128, blocks: int = 9, shrink: int = 1
) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """`shrink` divides every channel count but the colours'."""
    return CycleGAN(blocks, WIDTH // shrink), (images(batch, image), images(batch, image))
