"""A task: what one measuring process does, as plain data that travels to it.

A task is sent with the name of its class, so that the process can load it. Its `run` returns plain data that travels
back: dataclasses of numbers, texts and tuples. How the process is run is no part of the task (control.py).
"""

from __future__ import annotations

import importlib
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec

from statsnet import errors
from statsnet.errors import StatsNetError, UsageError
from statsnet.progress import Progress, silent
from statsnet.workloads.settings import BASELINE, Setting

R = TypeVar("R")

_READING = threading.Lock()
"""msgspec works out a type when it is first read. Two threads that do so at once crash the program."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a process says while it runs: its progress, the number of the item that it starts, the operator that it
    runs now (empty: none any more), how its turn went, what it has just spent on waiting for a quiet moment, or whether
    the machine was at its best while it measured."""

    progress: Progress | None = None
    item: int | None = None
    operator: str | None = None
    window_s: float | None = None
    waited_s: float = 0.0
    at_best: bool | None = None
    ready: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a task is given in its process: the setting that it runs under, the function that it reports to, and, if it
    takes turns with others, a command for each of its turns."""

    setting: Setting = BASELINE
    say: Callable[[Event], None] = silent
    turns: Iterable[str] | None = None

    def report(self, progress: Progress) -> None:
        self.say(Event(progress=progress))


class Task(ABC, Generic[R]):
    """Subclasses are frozen dataclasses at the top of a module, so that the process can load them by name."""

    @abstractmethod
    def run(self, context: Context) -> R:
        """Do the work, in the process that was started for it."""

    @property
    def measured_device(self) -> str:
        """Whose times it takes: what it says, else the CPU. `meta`: it takes none."""
        return str(getattr(self, "device", "cpu"))


class CountableTask(Task[R]):
    """A task whose kernels can be counted under Nsight Compute."""

    @abstractmethod
    def launch(self, context: Context) -> None:
        """Launch the kernels that `run` times, in the same order, within `ncu.RANGE`."""


@dataclass(frozen=True)
class UnderNcu(Task[None]):
    """The same task, launched to have its kernels counted."""

    task: CountableTask[Any]

    @property
    def measured_device(self) -> str:
        return self.task.measured_device

    def run(self, context: Context) -> None:
        self.task.launch(context)


def encode_task(task: Task[Any]) -> dict[str, Any]:
    """As plain data."""
    if isinstance(task, UnderNcu):
        return {"class": "UnderNcu", "fields": encode_task(task.task)}
    return encoded(task)


def encoded(value: object) -> dict[str, Any]:
    """A dataclass as plain data, with the name of its class."""
    return {"class": class_name(value), "fields": msgspec.to_builtins(value)}


def class_name(value: object) -> str:
    """`"module:Class"`, by which a process loads it."""
    return f"{type(value).__module__}:{type(value).__qualname__}"


def decode_task(data: dict[str, Any]) -> Task[Any]:
    """Inverse of `encode_task`. Raises UsageError if the class is no task."""
    if data["class"] == "UnderNcu":
        return UnderNcu(decode_task(data["fields"]))  # type: ignore[arg-type]
    task: Task[Any] = msgspec.convert(data["fields"], named_class(str(data["class"]), Task, "a task"))
    return task


def named_class(address: str, base: type[Any], noun: str) -> type[Any]:
    """The class at `"module:Class"`. Raises UsageError if it is none, or not derived from `base`, which messages call
    by the noun."""
    module, _, name = address.partition(":")
    kind = getattr(importlib.import_module(module), name, None) if module and name else None
    if not (isinstance(kind, type) and issubclass(kind, base)):
        raise UsageError(f"'{address}' is not {noun}")
    return kind


def result_type(of: object) -> Any:
    """What the `run` of a task or an errand returns."""
    kind: Any = type(of)
    return get_type_hints(kind.run)["return"]


def converted(data: Any, kind: Any) -> Any:
    """A result of this type from plain data. Threads may call it."""
    with _READING:
        return msgspec.convert(data, kind)


def decode_event(line: bytes) -> Event:
    """What a process has said in a line. Threads may call it."""
    with _READING:
        return msgspec.json.decode(line, type=Event)


def to_json(value: Any) -> str:
    """Raises ValueError for NaN and infinities: a failed run must not become a number."""
    return json.dumps(msgspec.to_builtins(value), allow_nan=False)


def encode_error(error: StatsNetError) -> dict[str, str]:
    """As plain data."""
    return {"class": type(error).__name__, "message": error.message, "cause": error.cause, "hint": error.hint}


def decode_error(data: Mapping[str, str]) -> StatsNetError:
    """Inverse of `encode_error`; a class that this program does not know is a StatsNetError."""
    kind = getattr(errors, data["class"], None)
    if not (isinstance(kind, type) and issubclass(kind, StatsNetError)):
        kind = StatsNetError
    return kind(data["message"], cause=data["cause"], hint=data["hint"])
