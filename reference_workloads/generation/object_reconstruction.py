"""3D objects from one image, perspective transformer nets (arXiv 1612.00814), layers of xcyan/nips16_PTN.

An image of 64x64 gives a volume of 32x32x32, which is looked at from 24 sides: points along each camera's
rays are sampled from the volume, and the largest value on a ray is its pixel of the silhouette. Volume and
silhouettes are both compared with true ones (the paper's PTN-Comb). The unit for the pose, which only the
pretraining of the encoder uses, is left out.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from reference_workloads.initial import he_normal

IMAGE, SIDE = 64, 32
FOCAL, DEPTH = 0.866, 1.732
"""Distance of the first points on a ray from the camera, and from there to the last ones."""

ELEVATION = math.radians(30)


def cameras(views: int) -> Tensor:
    """From points on a camera's rays to x, y, z in the volume: (views, 3, 4), all around the object."""
    up, level = math.sin(ELEVATION), math.cos(ELEVATION)
    matrices = []
    for view in range(views):
        angle = -2 * math.pi * view / views
        sin, cos = math.sin(angle), math.cos(angle)
        rotation = ((sin * level, sin * up, cos), (-up, level, 0.0), (cos * level, cos * up, -sin))
        matrices.append([[a, b / FOCAL, c / FOCAL, -a * (FOCAL + DEPTH / 2)] for a, b, c in rotation])
    return torch.tensor(matrices)


def ray_points() -> Tensor:
    """(depth, y, x, 1) of the points on all rays: (32 * 32 * 32, 4), the nearest ones first."""
    depth, plane = torch.linspace(FOCAL, FOCAL + DEPTH, SIDE), torch.linspace(-1, 1, SIDE)
    z, y, x = torch.meshgrid(depth, plane, plane, indexing="ij")
    return torch.stack([z, y * z, x * z, torch.ones_like(z)], dim=-1).view(-1, 4)


class PerspectiveTransformerNet(nn.Module):
    """`shrink` divides every channel count but the colours'."""

    points: Tensor

    def __init__(self, shrink: int = 1) -> None:
        super().__init__()
        a, b, c, d = 64 // shrink, 128 // shrink, 256 // shrink, 512 // shrink
        hidden, narrow = 1024 // shrink, 96 // shrink
        encoder = nn.Sequential(
            nn.Conv2d(3, a, 5, stride=2, padding=2),
            nn.ReLU(inplace=True),
            nn.Conv2d(a, b, 5, stride=2, padding=2),
            nn.ReLU(inplace=True),
            nn.Conv2d(b, c, 5, stride=2, padding=2),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(c * (IMAGE // 8) ** 2, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, d),
            nn.ReLU(inplace=True),
        )
        self.encoder = he_normal(encoder)
        self.decoder = nn.Sequential(
            nn.Linear(d, d * 3**3),
            nn.ReLU(inplace=True),
            nn.Unflatten(1, (d, 3, 3, 3)),
            nn.ConvTranspose3d(d, c, 4),
            nn.ReLU(inplace=True),
            nn.ConvTranspose3d(c, narrow, 5, stride=2),
            nn.ReLU(inplace=True),
            nn.ConvTranspose3d(narrow, 1, 6, stride=2, padding=1),
            nn.Sigmoid(),
        )
        self.register_buffer("points", ray_points(), persistent=False)

    def forward(self, image: Tensor, camera: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, 3, 64, 64) in [0, 1] and (batch, views, 3, 4) -> the volume and its silhouettes.

        (batch, 1, 32, 32, 32) and (batch, views, 32, 32).
        """
        volume = self.decoder(self.encoder(2 * image - 1))
        return volume, self.project(volume, camera)

    def project(self, volume: Tensor, camera: Tensor) -> Tensor:
        views = camera.shape[1]
        places = torch.matmul(self.points, camera.flatten(0, 1).transpose(1, 2))
        # Volumes are stored with the height first, cameras look along the first axis.
        volumes = volume.transpose(2, 3).repeat_interleave(views, dim=0)
        rays = nn.functional.grid_sample(volumes, places.reshape(-1, SIDE, SIDE, SIDE, 3), align_corners=False)
        return rays.amax(2).flip(2).reshape(-1, views, SIDE, SIDE)


def build(batch: int = 2, views: int = 24, shrink: int = 1) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    model = PerspectiveTransformerNet(shrink)
    return model, (torch.rand(batch, 3, IMAGE, IMAGE), cameras(views).repeat(batch, 1, 1, 1))
