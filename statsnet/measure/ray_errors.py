"""What the Ray engine says of nodes that cannot measure, and of errands that failed there; and whose fault it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import statsnet
from statsnet.errors import (
    MeasurementError,
    ModelError,
    ProcessError,
    StatsNetError,
    UsageError,
    WorkloadError,
    first_line,
    printable,
)
from statsnet.measure.engine import LeftOut, Place
from statsnet.measure.ray_cluster import Node
from statsnet.measure.ray_held import HELD_LIMIT_S, AtWork, Held
from statsnet.units import format_duration

PROBE_LIMIT_S = 120.0
"""A node that has not described itself by then is busy, or has no worker to spare. Importing torch takes seconds."""

NO_SPACE = "No space left on device"

_GONE = "doesn't exist any more"
"""Ray's words for a node to which nothing can be sent."""


def may_be_of_node(error: StatsNetError) -> bool:
    """Whether an errand that failed so may do better on another node: one whose disk is full, or that lacks a package,
    would fail quickly at all that is left to do."""
    if isinstance(error, ProcessError):
        return NO_SPACE in f"{error.message} {error.cause}"
    return not isinstance(error, UsageError | WorkloadError | ModelError)


def left_out_after(place: Place, label: str, error: StatsNetError, other: Place) -> LeftOut:
    """A place that could not measure what another one could."""
    cause = f" ({error.cause})" if error.cause else ""
    why = f"it could not measure {label}, which {other.name} has measured: {error.message}{cause}"
    return LeftOut(name=place.name, why=why, hint=error.hint or "look at its disk and its logs")


def ended(place: Place, label: str) -> LeftOut:
    return LeftOut(name=place.name, why=f"it has ended while it measured {label}", hint="look at its logs")


def killed_again(label: str, times: int, error: Exception) -> ProcessError:
    return ProcessError(
        f"the workers that measured {label} were killed {times} times",
        cause=first_line(error),
        hint="the node may lack memory for it: use a smaller preset or batch, or look into Ray's logs there",
    )


def missing(node: Node, kind: str) -> LeftOut | None:
    if kind == "cuda" and not node.gpus:
        return LeftOut(name=node.name, why="it offers no GPU to Ray", hint="start it with `ray start --num-gpus N`")
    if kind == "cpu" and node.cpus < 1:
        return LeftOut(name=node.name, why="it offers no CPU to Ray", hint="start it with `ray start --num-cpus N`")
    return None


def silent_node(node: Node, work: AtWork | None) -> LeftOut:
    others = f"; others use it: {', '.join(map(printable, work.others))}" if work and work.others else ""
    return LeftOut(
        name=node.name,
        why=f"it did not describe itself within {PROBE_LIMIT_S:g} s{others}",
        hint="try again later, or look with `ray status`",
    )


def held_too_long(place: Place, held: Held) -> LeftOut:
    return LeftOut(
        name=place.name,
        why=f"another Ray job has held it for {format_duration(HELD_LIMIT_S)}: {held}",
        hint="end that job, or try again when it has ended",
    )


def unusable(node: Node, error: Exception) -> LeftOut:
    text = str(error)
    if "No module named 'statsnet" in text:
        wanted = f"pip install 'statsnet[cluster]=={statsnet.__version__}' there, and start the node again"
        return LeftOut(name=node.name, why="StatsNet is not installed there", hint=wanted)
    if _GONE in text:
        return LeftOut(name=node.name, why="it left, or has no room to describe itself", hint="look at its logs")
    return LeftOut(name=node.name, why=f"it could not describe itself ({_last_line(error)})", hint="look at its logs")


def no_place(label: str, lost: Iterable[LeftOut]) -> MeasurementError:
    """`lost` are the nodes that it could have gone to."""
    return MeasurementError(
        f"no node is left that could measure {label}",
        cause="; ".join(dict.fromkeys(f"{each.name}: {each.why}" for each in lost)) or "none was found",
        hint="the same command goes on with what is kept, and asks all nodes that are there, also those that were left "
        "out; `ray start --address` starts more",
    )


def no_room(label: str, place: Place, error: Exception) -> MeasurementError:
    return MeasurementError(
        f"the result of {label} could not leave {place.name}",
        cause=f"Ray's object store there is full ({_last_line(error)})",
        hint="`ray memory` shows what fills it; free it, and the same command measures this one again",
    )


def failed(label: str, place: Place, error: Exception) -> MeasurementError:
    return MeasurementError(
        f"{place.name} could not measure {label}",
        cause=_last_line(error),
        hint="install there what the workload needs, in the same versions as here",
    )


def other_form(label: str, place: Place, error: Exception) -> MeasurementError:
    return MeasurementError(
        f"the result of {label} on {place.name} has another form",
        cause=first_line(error),
        hint="install the same version of StatsNet there",
    )


def other_device(label: str, place: Place, changed: Sequence[str]) -> MeasurementError:
    """Ray chooses which GPU of its node a measurement gets, and one of them has described itself for all."""
    return MeasurementError(
        f"{label} was measured on another device than {place.name} has described",
        cause="; ".join(changed),
        hint="where a node's GPUs differ, start one for each kind: CUDA_VISIBLE_DEVICES=0 ray start --num-gpus 1",
    )


def _last_line(error: Exception) -> str:
    """Ray's errors quote a traceback, which ends with what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
