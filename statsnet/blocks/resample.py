"""Maps of another size: interpolation, sampling at given points, padding."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from statsnet.blocks.base import Block, BlockKind, Config, divided
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import is_tensor


class Resize(Block):
    """batch × channels × size interpolated to the size `out`; `corners` is align_corners."""

    maps = True

    def __init__(self, batch: int, channels: int, size: tuple, out: tuple, mode: str, corners: bool = False) -> None:
        super().__init__(batch, channels, *size)
        self.out, self.mode = out, mode
        self.corners = corners if mode != "nearest" else None

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(self.enter(x), self.out, mode=self.mode, align_corners=self.corners)


class Sample(Block):
    """batch × channels × size, interpolated at `points` fixed random places."""

    maps = True
    places: Tensor

    def __init__(self, batch: int, channels: int, size: tuple, points: tuple, corners: bool = False) -> None:
        super().__init__(batch, channels, *size)
        self.corners = corners
        self.register_buffer("places", 2 * torch.rand(batch, *points, len(size)) - 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.grid_sample(self.enter(x), self.places, align_corners=self.corners)


class Pad(Block):
    """batch × channels × size with a border: `pads` as F.pad's, the last axis first."""

    maps = True

    def __init__(self, batch: int, channels: int, size: tuple, pads: tuple, mode: str = "constant") -> None:
        super().__init__(batch, channels, *size)
        self.pads, self.mode = pads, mode

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(self.enter(x), self.pads, self.mode)


class _MapKind(BlockKind):
    """Kinds that read batch × channels × size."""

    def scaled(self, config: Config, divisor: float) -> Config | None:
        return _fewer_maps(config, divisor)


MODES = {
    "upsample_nearest": "nearest", "upsample_linear": "linear", "upsample_bilinear": "bilinear",
    "upsample_trilinear": "trilinear", "upsample_bicubic": "bicubic",
}  # fmt: skip


class ResizeKind(_MapKind):
    name = "resize"
    module = Resize
    words: ClassVar = {"mode": MODES.values()}

    def steady(self, config: Config) -> bool:
        return math.prod(config["out"]) <= 64 * math.prod(config["size"])  # gradients are sums

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first = motif[0]
        mode = MODES.get(base_name(first.op)[:-2])  # without its "2d"
        config = _maps(first)
        if mode is None or config is None:
            return None
        corners = mode != "nearest" and first.args[2] is True
        return {**config, "out": tuple(first.outputs[0]["shape"][2:]), "mode": mode, "corners": corners}


class SampleKind(_MapKind):
    name = "sample"
    module = Sample

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first = motif[0]
        config = _maps(first) if base_name(first.op) in ("grid_sampler_2d", "grid_sampler_3d") else None
        if config is None or first.args[2] or first.args[3] not in (0, 1):
            return None  # only bilinear
        return {**config, "points": tuple(first.outputs[0]["shape"][2:]), "corners": first.args[4] is True}


BORDERS = {"constant": "constant", "reflection": "reflect", "replication": "replicate"}


class PadKind(_MapKind):
    name = "pad"
    module = Pad
    words: ClassVar = {"mode": BORDERS.values()}

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first, base = motif[0], base_name(motif[0].op)
        mode = "constant" if base == "constant_pad_nd" else base.partition("_pad")[0]
        config = _maps(first) if "_pad" in base else None
        if config is None or mode not in BORDERS:
            return None
        pads = tuple(first.args[1])
        if min(pads) < 0 or len(pads) > 2 * len(config["size"]):
            return None
        return {**config, "pads": pads, "mode": BORDERS[mode]}


def _fewer_maps(config: Config, divisor: float) -> Config | None:
    """The batch divided; if it is too small for that, the channels too."""
    batch, channels = config["batch"], config["channels"]
    if batch >= divisor:
        return {**config, "batch": round(batch / divisor)}
    rest = divided(channels, -(-divisor // batch))
    return None if rest is None else {**config, "batch": 1, "channels": rest}


def _maps(cluster: Cluster) -> Config | None:
    """Configuration of the first argument; None unless it is batch × channels × size of floating numbers."""
    x: Any = cluster.args[0] if cluster.args and is_tensor(cluster.args[0]) else None
    if x is None or len(x["shape"]) < 3 or not x["dtype"].startswith(("float", "bfloat")):
        return None
    batch, channels, *size = x["shape"]
    return {"batch": batch, "channels": channels, "size": tuple(size)}
