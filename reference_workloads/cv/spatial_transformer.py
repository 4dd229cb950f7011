"""Spatial transformer on MNIST (arXiv 1506.02025), AIBench's, which is PyTorch's tutorial; 27,360 parameters.

A small network predicts an affine map for each image, the image is sampled along it, and a second small
network classifies what comes out. The map starts as the identity.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from reference_workloads.synthetic import images

IMAGE = 28


class SpatialTransformer(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.localisation = nn.Sequential(
            nn.Conv2d(1, 8, 7),
            nn.MaxPool2d(2),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 10, 5),
            nn.MaxPool2d(2),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(10 * 3 * 3, 32),
            nn.ReLU(inplace=True),
        )
        self.affine = nn.Linear(32, 2 * 3)
        nn.init.zeros_(self.affine.weight)
        with torch.no_grad():
            self.affine.bias.copy_(torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 0.0]))
        self.classifier = nn.Sequential(
            nn.Conv2d(1, 10, 5),
            nn.MaxPool2d(2),
            nn.ReLU(inplace=True),
            nn.Conv2d(10, 20, 5),
            nn.Dropout2d(),
            nn.MaxPool2d(2),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(20 * 4 * 4, 50),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(50, classes),
            nn.LogSoftmax(dim=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 1, 28, 28) -> log probabilities, (batch, 10)."""
        return self.classifier(self.straighten(x))

    def straighten(self, x: Tensor) -> Tensor:
        theta = self.affine(self.localisation(x)).view(-1, 2, 3)
        grid = functional.affine_grid(theta, list(x.shape), align_corners=False)
        return functional.grid_sample(x, grid, align_corners=False)


def build(batch: int = 1024) -> tuple[nn.Module, Tensor]:
    return SpatialTransformer(), images(batch, IMAGE, channels=1)
