"""Max and average pooling over two axes."""

from __future__ import annotations

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from statsnet.blocks.base import SMALLEST_MAP, Block, BlockKind, Config, per_axis, resized_map
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import is_tensor

CHANNELS_AT_ONCE = 64
"""Runtimes that keep maps in layouts of their own compute the channels of a position at once."""

FEWEST_MAPS = 8
"""`scaled` leaves this many maps. Each thread takes whole maps, so that with one map the others would be idle."""

ROUNDED = 1.3
"""What is left to be divided by no more than this stays: sizes are whole numbers."""


class Pool(Block):
    """Max or average pooling of batch × channels × size; without a kernel, the average of the whole map."""

    maps = True

    def __init__(
        self, kind: str, batch: int, channels: int, size: tuple, kernel: tuple = (), stride: tuple = (),
        padding: tuple = (0, 0), ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(batch, channels, *size)
        self.pool = F.max_pool2d if kind == "max" else F.avg_pool2d
        self.window = (kernel, stride, padding)
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        if not self.window[0]:
            return F.adaptive_avg_pool2d(x, 1)
        return self.pool(x, *self.window, ceil_mode=self.ceil_mode)


class PoolKind(BlockKind):
    name = "pool"
    memory_bound = True
    module = Pool
    words: ClassVar = {"kind": ("max", "avg")}

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first, base = motif[0], base_name(motif[0].op)
        shape = first.args[0]["shape"] if first.args and is_tensor(first.args[0]) else []
        if len(shape) != 4:
            return None
        config: Config = {
            "kind": "max" if base.startswith("max") else "avg",
            "batch": shape[0],
            "channels": shape[1],
            "size": tuple(shape[2:]),
        }
        if base in ("mean", "adaptive_avg_pool2d", "_adaptive_avg_pool2d", "mkldnn_adaptive_avg_pool2d"):
            by_axes = base == "mean" and sorted(a % 4 for a in first.args[1] or []) == [2, 3]
            by_size = base != "mean" and first.outputs[0]["shape"][2:] == [1, 1]
            return config if by_axes or by_size else None
        if base not in ("max_pool2d_with_indices", "max_pool2d", "avg_pool2d"):
            return None
        config["kernel"] = per_axis(first.args[1], 2)
        config["stride"] = per_axis(first.args[2] or first.args[1], 2)
        config["padding"] = per_axis(first.args[3], 2)
        config["ceil_mode"] = first.args[5 if base.startswith("max") else 4] is True
        return config

    def scaled(self, config: Config, divisor: float) -> Config | None:
        """Fewer images, then channels while enough are left, then lower maps, then fewer channels still."""
        batch, channels, (height, *width) = config["batch"], config["channels"], config["size"]
        lowest = max(SMALLEST_MAP, 4 * config["kernel"][0]) if "kernel" in config else height
        batch, rest = _towards(batch, divisor, -(-FEWEST_MAPS // channels))
        channels, rest = _towards(channels, rest, CHANNELS_AT_ONCE)
        height, rest = _towards(height, rest, lowest)
        channels, rest = _towards(channels, rest, -(-FEWEST_MAPS // batch))
        return None if rest > 1 else {**config, "batch": batch, "channels": channels, "size": (height, *width)}

    def resized(self, config: Config, factor: float) -> Config | None:
        return resized_map(config, factor)

    def narrowed(self, config: Config, divisor: int) -> Config | None:
        """Smaller maps, the longer side first, while the window still fits several times."""
        height, width = config["size"]
        while divisor > 1:
            if max(height, width) < 16 or not config.get("kernel"):
                return None
            height, width = (height // 2, width) if height >= width else (height, width // 2)
            divisor //= 2
        return {**config, "size": (height, width)}


def _towards(size: int, divisor: float, least: int) -> tuple[int, float]:
    """size ÷ divisor, at least `least` if it was above; and what is still to be divided by, 1 if that is within
    ROUNDED."""
    smaller = max(min(least, size), round(size / divisor))
    rest = divisor * smaller / size
    return smaller, rest if rest > ROUNDED else 1.0
