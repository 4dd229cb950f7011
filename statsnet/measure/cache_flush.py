"""Overwrites a device's caches, so that what is timed next has to read its data from memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import torch

from statsnet.environment.record import cores_to_run_on

LEAST_BYTES, MOST_BYTES = 2**26, 2**30

MOST_BYTES_PER_CORE = 2**26
"""A virtual machine with two cores reports the whole cache of its processor: hundreds of megabytes, shared with others.
Overwriting that much before each operator would take ten times as long as the operator."""


def cache_flush(device: str) -> Callable[[], object]:
    """A function that overwrites the caches of `device`; on a CPU, those of the cores that this process may use.

    64 MiB are enough for a desktop's processor only. A server's last-level caches hold hundreds of megabytes, and one
    socket can have several. A smaller buffer would leave in them what the last call read.
    """
    buffer = torch.empty(flush_bytes(device) // 4, dtype=torch.float32, device=device)
    return partial(buffer.fill_, 1.0)


def flush_bytes(device: str) -> int:
    """Twice the size of the caches, within limits."""
    if device.startswith("cuda"):
        return min(2 * torch.cuda.get_device_properties(device).L2_cache_size, MOST_BYTES)
    cores = cores_to_run_on()
    most = min(MOST_BYTES_PER_CORE * len(cores), MOST_BYTES)
    return max(min(2 * last_level_bytes(cores), most), LEAST_BYTES)


def last_level_bytes(cores: Iterable[int], root: Path = Path("/sys/devices/system/cpu")) -> int:
    """Total size of these cores' last-level caches, each counted once; 0 if the system does not tell."""
    sizes: dict[str, int] = {}
    for core in cores:
        caches = [*(root / f"cpu{core}" / "cache").glob("index*")]
        try:
            last = max(caches, key=lambda cache: int((cache / "level").read_text()))
            sharing = (last / "shared_cpu_list").read_text()
            sizes[sharing] = int((last / "size").read_text().strip().removesuffix("K")) * 1024
        except (OSError, ValueError):  # some virtual machines and systems do not tell
            continue
    return sum(sizes.values())
