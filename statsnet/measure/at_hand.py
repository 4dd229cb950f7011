"""Whether the device that is asked for is here, and can be locked: found out before the work."""

from __future__ import annotations

from statsnet.environment.launch import launched_together
from statsnet.environment.memory import memory_at_hand_bytes
from statsnet.errors import UsageError
from statsnet.measure.device_lock import require_folder
from statsnet.workloads.building import check_device

PROCESS_BYTES = 300_000_000
"""What a process takes once it has imported torch."""

PREFIX = "recorded:"
"""Begins the name of a device that is not here."""


def is_recorded(device: str) -> bool:
    return device.startswith(PREFIX)


def require_device(name: str, *, meta: bool = False) -> None:
    """Raises as `require_folder` and `check_device` do."""
    require_folder(name)
    if is_recorded(name):
        raise UsageError(
            f"'{name}' is not a device to run on", hint="statsnet synthesize --device takes recorded devices"
        )
    check_device(name, meta=meta)


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
