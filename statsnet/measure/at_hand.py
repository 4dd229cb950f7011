"""Whether the device that is asked for is here, and can be locked: found out before the work."""

from __future__ import annotations

from statsnet.errors import DeviceError, UsageError
from statsnet.measure.device_lock import require_folder


def require_device(name: str, *, meta: bool = False) -> None:
    """Raises UsageError for a word that names no device and as `require_folder` does, DeviceError where the device is
    not. With `meta`, counting on fake tensors is one, too."""
    require_folder(name)
    kind, _, index = name.partition(":")
    if name == "cpu" or (meta and name == "meta"):
        return
    if name.startswith("recorded:"):
        raise UsageError(
            f"'{name}' is not a device to run on", hint="statsnet synthesize --device takes recorded devices"
        )
    if kind != "cuda" or (":" in name and not index.isdigit()):
        raise UsageError(
            f"'{name}' is not a device", hint=f"use cpu, cuda{', cuda:N or meta' if meta else ' or cuda:N'}"
        )
    import torch

    if not torch.cuda.is_available():
        raise DeviceError(
            "there is no CUDA device here",
            cause="torch finds no usable GPU" if torch.version.cuda else "torch was built without CUDA",
            hint="use --device cpu" + (", or --device meta to count without a device" if meta else ""),
        )
    if int(index or 0) >= torch.cuda.device_count():
        raise DeviceError(f"there is no {name}", cause=f"torch finds {torch.cuda.device_count()} CUDA devices")


def check_counters(counters: str, device: str) -> None:
    """Raises UsageError where hardware counters are demanded of what has none."""
    if counters == "ncu" and not device.startswith("cuda"):
        raise UsageError(
            f"hardware counters were asked for of '{device}'",
            cause="Nsight Compute reads those of an NVIDIA GPU",
            hint="give --device cuda, or leave out --counters",
        )
