"""What a profiler's recording lacks, in sentences for whoever made it."""

from __future__ import annotations

import re
from typing import Literal

from statsnet.errors import FileFormatError
from statsnet.recordings.chrome_trace import Recording
from statsnet.recordings.other_tools import HOW

_OF_APPLE = re.compile(r"aten::\w*mps_\w+|aten::\w+_for_mps")
_OF_A_GPU = re.compile(
    rf"aten::_?(?:cudnn|miopen)_(?:convolution|batch_norm|rnn|linear|lstm)\w*|nccl:.*|{_OF_APPLE.pattern}"
)
"""Ranges that only a step on a GPU has."""


def check(recording: Recording, name: str) -> None:
    """Raise FileFormatError for a recording without operators, or whose kernels several launches may have started."""
    if recording.is_ambiguous:
        raise FileFormatError(
            f"'{name}' holds several recordings whose kernels cannot be told apart",
            cause="somebody put recordings into one file, and their launches have the same numbers",
            hint="import one of these recordings, of one process",
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
    if "schemaVersion" in recording.head and not recording.threads:
        raise FileFormatError(
            f"'{name}' holds no operators",
            cause="the profiler had recorded nothing when it was exported",
            hint="export in on_trace_ready: where a schedule begins a new cycle, the profiler forgets the one before",
        )
    raise FileFormatError(
        f"'{name}' holds no operators of torch",
        cause="it is empty, or of another tool: none of its events is in the category cpu_op",
        hint=f"record with {HOW}",
    )


def device_of(recording: Recording) -> Literal["cpu", "cuda"]:
    """Where the operators ran: on a GPU if kernels or launches were recorded, or operators that run nowhere else."""
    if recording.on_device:
        return "cuda"
    told = any("Launch" in e.name if e.kind == "launch" else _OF_A_GPU.fullmatch(e.name) for e in recording.events)
    return "cuda" if told else "cpu"


def notes_on(recording: Recording, device: str) -> list[str]:
    """A sentence for whatever it lacks."""
    notes = []
    if recording.merged > 1:
        notes.append(f"the file holds {recording.merged} processes: the one with the most work was read")
    if recording.copies:
        notes.append(f"the file holds {recording.copies} events more than once: each was read once")
    if not recording.steps:
        notes.append("no step is marked: all that was recorded counts as one step, with what came before the first")
    if device == "cpu":
        notes.append("no kernel and no launch was recorded: the operators' times are those of a CPU")
        if recording.head.get("deviceProperties"):
            notes.append(f"the file lists a GPU: if the step ran on it, these times are wrong; record with {HOW}")
    elif not recording.has_kernels and any(_OF_APPLE.fullmatch(e.name) for e in recording.operators):
        notes.append(
            "the step ran on an Apple GPU (MPS), of which torch.profiler records no kernels: operators have shapes and "
            "no times"
        )
    elif not recording.has_kernels:
        which = "with its launch" if recording.on_device else "at all"
        notes.append(f"no kernel was recorded {which}: operators, which ran on a GPU, have no times; record with {HOW}")
    else:
        launches = [e for e in recording.events if e.kind == "launch" and "LaunchKernel" in e.name]
        if without := sum(not e.has_work for e in launches):
            notes.append(f"{without} of {len(launches)} launches have no kernel in the recording, and no time")
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
