"""An errand: what a machine is asked to measure, as plain data that travels to it.

A task runs in one process (task.py). An errand runs one or several such processes of one machine, one after the other,
and writes what they read into temporary files there: so it names no file of the machine that it comes from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from statsnet.measure import process
from statsnet.measure.control import Control, Job
from statsnet.measure.task import decode_task, encode_task, encoded, named_class, result_type
from statsnet.progress import Report, silent

R = TypeVar("R")


class Errand(ABC, Generic[R]):
    """Subclasses are frozen dataclasses at the top of a module, so that another machine can load them by name."""

    @abstractmethod
    def run(self, report: Report = silent) -> R:
        """Do it on this machine. Raises StatsNetError; the result is plain data, as a task's."""

    @property
    def result_type(self) -> Any:
        """What `run` returns."""
        return result_type(self)

    def environments(self, result: R) -> Sequence[Mapping[str, Any]]:
        """The records of the environments that a result was measured in, if it tells."""
        return ()


@dataclass(frozen=True, kw_only=True)
class RunJob(Errand[Any]):
    """One task in one process. `task` is what encode_task made of it."""

    task: Mapping[str, Any]
    control: Control

    @classmethod
    def of(cls, job: Job[Any]) -> RunJob:
        return cls(task=encode_task(job.task), control=job.control)

    def run(self, report: Report = silent) -> Any:
        return process.run(decode_task(dict(self.task)), self.control, report=report)

    @property
    def result_type(self) -> Any:
        return result_type(decode_task(dict(self.task)))


def encode_errand(errand: Errand[Any]) -> dict[str, Any]:
    """As plain data."""
    return encoded(errand)


def decode_errand(data: Mapping[str, Any]) -> Errand[Any]:
    """Inverse of `encode_errand`. Raises UsageError if the class is no errand."""
    errand: Errand[Any] = msgspec.convert(data["fields"], named_class(str(data["class"]), Errand, "an errand"))
    return errand
