"""Whether the device that is asked for is here, and can be locked: found out before the work."""

from __future__ import annotations

from statsnet.environment.launch import launched_together
from statsnet.environment.memory import memory_at_hand_bytes
from statsnet.errors import DeviceError, UsageError
from statsnet.measure.device_lock import require_folder

PROCESS_BYTES = 300_000_000
"""What a process takes once it has imported torch."""


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


def check_together(processes: int, device: str, counters: str, *, sandboxed: bool) -> None:
    """Raises UsageError for what only one process can do, where several make the step: `processes` that are to be
    started, or those of torchrun. On "meta" none is started, and nothing needs more than the one that counts."""
    if processes > 1 and launched_together():
        raise UsageError(
            "--nproc was given under torchrun", cause="torchrun has started the processes", hint="leave out --nproc"
        )
    if device == "meta" or not (processes > 1 or launched_together()):
        return
    room = memory_at_hand_bytes() // PROCESS_BYTES
    if processes > room:
        raise UsageError(
            f"--nproc {processes} asks for more processes than this machine has memory for",
            cause=f"torch alone takes {PROCESS_BYTES / 1e9:.1f} GB in each: {room} fit",
            hint="--device meta counts one of them without the others",
        )
    refused = (
        (device.startswith("cuda:"), f"--device {device}", "each takes a GPU of its own", "give --device cuda"),
        (counters == "ncu", "--counters ncu", "counting makes a step in one process, and they wait for each other",
         "leave out --counters"),
        (sandboxed, "--sandbox", "those in a sandbox have no network, through which several find each other",
         "run the command without it in a container"),
    )  # fmt: skip
    for is_given, option, cause, hint in refused:
        if is_given:
            raise UsageError(f"{option} was given for several processes", cause=cause, hint=hint)
