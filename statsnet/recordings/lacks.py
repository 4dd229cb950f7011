"""What a profiler's recording lacks, in sentences for whoever made it."""

from __future__ import annotations

from typing import Literal

from statsnet.errors import FileFormatError
from statsnet.recordings.chrome_trace import Recording

HOW = "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True)"


def check(recording: Recording, name: str) -> None:
    """Raise FileFormatError for a recording without operators, or with kernels that may be of several processes."""
    if recording.is_ambiguous:
        raise FileFormatError(
            f"'{name}' holds several processes whose kernels cannot be told apart",
            cause="somebody put recordings of processes into one file, and their launches have the same numbers",
            hint="import the recording of one process",
        )
    if any(recording.operators):
        return
    if recording.on_device:
        raise FileFormatError(
            f"'{name}' holds no operators",
            cause=f"it was recorded with activities=[CUDA] alone: {recording.on_device} kernels and copies, and "
            "nothing that says what they computed",
            hint=f"record with {HOW}",
        )
    raise FileFormatError(
        f"'{name}' holds no operators of torch",
        cause="it is empty, or of another tool: none of its events is in the category cpu_op",
        hint=f"record with {HOW}",
    )


def device_of(recording: Recording) -> Literal["cpu", "cuda"]:
    """Where the operators ran: on a GPU if kernels or launches were recorded."""
    launches = any(e.kind == "launch" and "Launch" in e.name for e in recording.events)
    return "cuda" if recording.on_device or launches else "cpu"


def notes_on(recording: Recording, device: str) -> list[str]:
    """A sentence for whatever it lacks."""
    notes = []
    if recording.merged > 1:
        notes.append(f"the file holds {recording.merged} processes: the one with the most work was read")
    if not recording.steps:
        notes.append("no step is marked: all that was recorded counts as one step, with what came before the first")
    if device == "cpu":
        notes.append("no kernel and no launch was recorded: the operators' times are those of a CPU")
    elif not recording.on_device:
        notes.append("kernels were launched but none was recorded: operators have no times")
    if not recording.has_shapes:
        notes.append(
            "the recording has no shapes: operators have no FLOPs and bytes; record with record_shapes=True, or give "
            "--execution-trace"
        )
    if recording.unlaunched:
        notes.append(
            f"{recording.unlaunched} kernels and copies have no launch in the recording, and belong to no step"
        )
    if recording.lost:
        notes.append(
            f"{recording.lost} kernels and copies have no times: the profiler writes zeros where its buffer is full"
        )
    return notes
