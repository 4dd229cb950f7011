"""What is known of a device's chip: its cores and its last-level cache, from the makers' data sheets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MB = 2**20


@dataclass(frozen=True, slots=True)
class Chip:
    """`cores`: streaming multiprocessors or compute units (of one die where each is a device); `cache_bytes`: the
    last-level cache, which all of them share (level 2, or AMD's Infinity Cache)."""

    cores: int
    cache_bytes: int


UNKNOWN = Chip(100, 32 * MB)

_CHIPS = {
    "nvidia-h100-sxm": (132, 50), "nvidia-h100-pcie": (114, 50), "nvidia-h100-nvl": (132, 50), "nvidia-h100": (132, 50),
    "nvidia-h200-sxm": (132, 50), "nvidia-gh200": (132, 50), "nvidia-b200-sxm": (148, 126),
    "nvidia-b300-sxm": (148, 126), "nvidia-gb200": (152, 126), "nvidia-gb300": (152, 126),
    "nvidia-a100": (108, 40), "nvidia-a40": (84, 6), "nvidia-a10": (72, 6), "nvidia-a10g": (80, 6),
    "nvidia-a30": (56, 24), "nvidia-l4": (58, 48), "nvidia-l40": (142, 96), "nvidia-l40s": (142, 96),
    "nvidia-t4": (40, 4), "nvidia-p4": (20, 2),
    "nvidia-p100": (56, 4), "nvidia-v100": (80, 6), "nvidia-m40": (24, 3), "nvidia-titan-x-maxwell": (24, 3),
    "nvidia-titan-x-pascal": (28, 3), "nvidia-titan-xp": (30, 3), "nvidia-titan-v": (80, 4),
    "nvidia-gtx-1080-ti": (28, 3), "nvidia-rtx-2080-ti": (68, 6), "nvidia-rtx-3090": (82, 6),
    "nvidia-rtx-4090": (128, 72), "nvidia-rtx-5090": (170, 96), "nvidia-rtx-a6000": (84, 6),
    "nvidia-rtx-6000-ada": (142, 96), "nvidia-rtx-pro-6000-blackwell": (188, 128),
    "amd-vega-56": (56, 4), "amd-vega-64": (64, 4), "amd-vega-fe": (64, 4), "amd-mi25": (64, 4), "amd-mi50": (60, 4),
    "amd-mi60": (64, 4), "amd-mi100": (120, 8), "amd-mi210": (104, 8), "amd-mi250": (104, 8), "amd-mi250x": (110, 8),
    "amd-mi300x": (304, 256), "amd-mi325x": (304, 256), "amd-mi355x": (256, 256), "amd-navi-21-72cu": (72, 128),
    "amd-navi-21-60cu": (60, 128),
    "intel-xeon-phi-7250": (68, 34),
}  # fmt: skip
"""Cores and cache in MB by the beginning of a canonical name."""


def chip_of(device: str) -> Chip:
    """The chip with the longest name that begins `device`'s; UNKNOWN if there is none."""
    name = _longest_name(device, _CHIPS)
    if name is None:
        return UNKNOWN
    cores, cache = _CHIPS[name]
    return Chip(cores, cache * MB)


_FLOAT32 = {
    "nvidia-a100": 19.5, "nvidia-a40": 37.4, "nvidia-h100-sxm": 66.9, "nvidia-h200-sxm": 66.9, "nvidia-b200-sxm": 75.0,
    "nvidia-b300-sxm": 75.0, "nvidia-gb200": 80.0, "nvidia-gb300": 80.0, "nvidia-l40s": 91.6,
    "nvidia-rtx-pro-6000-blackwell": 120.0,
}  # fmt: skip
"""TFLOP/s of float32 without TF32, which torch does not use unless asked, by the beginning of a canonical name."""


def float32_of(device: str) -> float | None:
    """FLOP/s of float32 by the data sheet; None if it is not in the list."""
    name = _longest_name(device, _FLOAT32)
    return _FLOAT32[name] * 1e12 if name else None


def _longest_name(device: str, names: Iterable[str]) -> str | None:
    """The longest of the names that begin `device`'s."""
    return max((name for name in names if f"{device}-".startswith(f"{name}-")), key=len, default=None)
