"""What a measurement depends on besides the workload, as a record; and which records may be compared.

A record is a plain dictionary (docs/formats.md lists its fields), so that it travels inside JSON files.

The record, pasted into every proxy's run.py, and which records are comparable
    record, identity
This process
    memory, launch, temporary, outputs
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from statsnet.environment import record
from statsnet.environment.identity import differences, fingerprint, machine_differences, slug
from statsnet.environment.record import (
    ALLOCATOR_ENV,
    ALLOCATOR_LIBRARIES,
    ALLOCATOR_VARIABLES,
    CPU_SETTINGS,
    GPU_SETTINGS,
    ISA_FLAGS,
    TORCH_SETTINGS,
    file_text,
    quota_env,
)
from statsnet.errors import DeviceError, StatsNetError

__all__ = [
    "ALLOCATOR_ENV",
    "ALLOCATOR_LIBRARIES",
    "ALLOCATOR_VARIABLES",
    "ISA_FLAGS",
    "SETTINGS",
    "STEP_SETTINGS",
    "TORCH_SETTINGS",
    "cache_dir",
    "describe",
    "differences",
    "file_text",
    "fingerprint",
    "machine_differences",
    "quota_env",
    "select",
    "slug",
]

SETTINGS = (*CPU_SETTINGS, *GPU_SETTINGS)
"""Environment variables that change speed."""

STEP_SETTINGS = ("mkldnn", "dtype", "layout", "precision", "compile", "graphs")
"""Changes to how a step is run that `--setting` makes inside a process."""

_FROM_TORCH = ("cpu_capability", "threads", "interop_threads", "torch", "mkl", "onednn")


def describe(device: str = "cpu") -> dict[str, Any]:
    """The environment record of this process for `"cpu"`, `"cuda"` or `"cuda:N"`.

    Works without torch for the CPU (its fields are null then). Raises DeviceError for an unknown or absent
    device.
    """
    kind, _, index = device.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdigit()):
        raise DeviceError(f"'{device}' is not a device", hint="use cpu, cuda or cuda:0")
    try:
        import torch
    except ImportError as error:
        if kind == "cpu":
            return {**record.describe_machine(), **dict.fromkeys(_FROM_TORCH)}
        cause = "torch is not installed"
        raise DeviceError("no GPU can be used", cause=cause, hint="install torch") from error
    number = int(index or 0)
    if kind == "cuda" and not (torch.cuda.is_available() and number < torch.cuda.device_count()):
        raise DeviceError(f"there is no device cuda:{number}", hint="use --device cpu, or check nvidia-smi")
    return record.describe(device)


def select(device: str) -> str:
    """Make `cuda:N` the current device; `cuda` means the first. Returns the kind of device, without N."""
    kind, _, index = device.partition(":")
    if kind == "cuda":
        import torch

        torch.cuda.set_device(int(index or 0))
    return kind


def cache_dir() -> Path:
    """$STATSNET_CACHE, else statsnet/ in the user's cache directory. Raises StatsNetError for a user who has none."""
    chosen = os.environ.get("STATSNET_CACHE")
    if chosen:
        return Path(chosen)
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen) / "statsnet"
    try:
        return Path.home() / ".cache" / "statsnet"
    except RuntimeError as error:  # no HOME, and a user that the system does not know, as in a container
        raise StatsNetError(
            "there is no folder to keep measurements in",
            cause="this user has no home folder",
            hint="set STATSNET_CACHE to a folder that may be written to, for example STATSNET_CACHE=/tmp/statsnet",
        ) from error
