"""Families of models that look alike: one kind, many depths and widths. `reidentification.py` tells them apart."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def bert(batch: int = 8, layers: int = 12, hidden: int = 768) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """An encoder on embedded tokens of a sequence of 128."""
    layer = nn.TransformerEncoderLayer(hidden, 8, 4 * hidden, activation="gelu", batch_first=True)
    tokens = torch.zeros(batch, 128, dtype=torch.long)
    return nn.Sequential(nn.Embedding(30_522, hidden), nn.TransformerEncoder(layer, layers)), (tokens,)


class _GatedLayer(nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.norm, self.norm_inner = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.gate, self.up, self.down = (
            nn.Linear(hidden, inner, bias=False), nn.Linear(hidden, inner, bias=False),
            nn.Linear(inner, hidden, bias=False),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        batch, steps, hidden = x.shape
        heads = self.qkv(self.norm(x)).view(batch, steps, 3, 8, hidden // 8).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, steps, hidden))
        y = self.norm_inner(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


def llama(batch: int = 8, layers: int = 16, hidden: int = 1024) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A decoder on a prompt of 128 tokens, with a vocabulary of 32,000."""
    blocks = [_GatedLayer(hidden, 11 * hidden // 4) for _ in range(layers)]
    model = nn.Sequential(nn.Embedding(32_000, hidden), *blocks, nn.RMSNorm(hidden), nn.Linear(hidden, 32_000))
    return model, (torch.zeros(batch, 128, dtype=torch.long),)


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return (x + self.body(x)).relu()


def resnet(batch: int = 8, layers: int = 8, hidden: int = 64) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Residual blocks in two stages, on images of 64 × 64."""
    parts: list[nn.Module] = [nn.Conv2d(3, hidden, 7, 2, 3)]
    parts += [_Residual(hidden) for _ in range(layers)] + [nn.Conv2d(hidden, 2 * hidden, 3, 2, 1)]
    parts += [_Residual(2 * hidden) for _ in range(layers)]
    parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * hidden, 1000)]
    return nn.Sequential(*parts), (torch.zeros(batch, 3, 64, 64),)


class _Dlrm(nn.Module):
    def __init__(self, tables: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(100_000 + 7000 * i, width) for i in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear((tables + 1) ** 2 + width, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        x = self.bottom(dense)
        rows = torch.stack([x, *(table(sparse[:, i]) for i, table in enumerate(self.tables))], 1)
        return self.top(torch.cat([x, (rows @ rows.transpose(1, 2)).flatten(1)], 1))


def dlrm(batch: int = 8, layers: int = 26, hidden: int = 64) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A recommender of `layers` tables, `hidden` wide."""
    sparse = torch.zeros(64 * batch, layers, dtype=torch.long)
    return _Dlrm(layers, hidden), (torch.zeros(64 * batch, 13), sparse)


FAMILIES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "bert": ((10, 11, 12, 13, 14), (704, 736, 768, 800, 832)),
    "llama": ((14, 15, 16, 17, 18), (960, 992, 1024, 1056, 1088)),
    "resnet": ((7, 8, 9, 10, 11), (56, 60, 64, 68, 72)),
    "dlrm": ((22, 24, 26, 28, 30), (56, 60, 64, 68, 72)),
}
"""Depths (for dlrm: numbers of tables) and widths of each family: 25 members, within a quarter of the middle one."""

HELD_OUT: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "bert": ((20, 22, 24, 26, 28), (928, 992, 1024, 1088, 1120)),
    "llama": ((28, 30, 32, 34, 36), (1920, 1984, 2048, 2112, 2176)),
    "resnet": ((14, 15, 16, 17, 18), (80, 88, 96, 104, 112)),
    "dlrm": ((40, 44, 48, 52, 56), (112, 120, 128, 136, 144)),
}
"""Larger ones, which no number in StatsNet was chosen with."""
