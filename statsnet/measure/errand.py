"""An errand: what a machine is asked to measure, as plain data that travels to it.

A task runs in one process (task.py). An errand runs one or several such processes of one machine, one after the other,
and writes what they read into temporary files there: so it names no file of the machine that it comes from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import msgspec

from statsnet.measure import process
from statsnet.measure.control import Control, Job
from statsnet.measure.network_file import written
from statsnet.measure.task import decode_task, encode_task, named_class, result_type
from statsnet.progress import Report, silent

R = TypeVar("R")

NETWORKS = ("folder", "reference_network")
"""Fields of tasks that may name the folder of a network. Its source travels with the task."""


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
    """One task in one process. `task` is what encode_task made of it, `networks` the source of those that it names."""

    task: Mapping[str, Any]
    control: Control
    networks: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, job: Job[Any]) -> RunJob:
        named = {name: Path(folder, "network.py") for name in NETWORKS if (folder := getattr(job.task, name, None))}
        sources = {name: file.read_bytes().decode() for name, file in named.items() if file.is_file()}
        return cls(task=encode_task(job.task), control=job.control, networks=sources)

    @contextmanager
    def here(self) -> Iterator[Job[Any]]:
        """The job on this machine, with its networks in temporary folders."""
        with ExitStack() as stack:
            folders = {name: stack.enter_context(written(source)) for name, source in self.networks.items()}
            task = decode_task({**self.task, "fields": {**self.task["fields"], **folders}})
            yield Job(task, self.control)

    def run(self, report: Report = silent) -> Any:
        with self.here() as job:
            return process.run_job(job, report=report)

    def environments(self, result: Any) -> Sequence[Mapping[str, Any]]:
        return [result.environment] if hasattr(result, "environment") else []

    @property
    def result_type(self) -> Any:
        return result_type(decode_task(dict(self.task)))


@dataclass(frozen=True, kw_only=True)
class RunJobs(Errand[R]):
    """Several tasks that belong together, on one machine."""

    jobs: tuple[RunJob, ...]

    @classmethod
    def of(cls, jobs: Sequence[Job[Any]]) -> Self:
        return cls(jobs=tuple(map(RunJob.of, jobs)))

    @contextmanager
    def here(self) -> Iterator[list[Job[Any]]]:
        """The jobs on this machine."""
        with ExitStack() as stack:
            yield [stack.enter_context(job.here()) for job in self.jobs]


def decode_errand(data: Mapping[str, Any]) -> Errand[Any]:
    """Inverse of `task.encoded`. Raises UsageError if the class is no errand."""
    errand: Errand[Any] = msgspec.convert(data["fields"], named_class(str(data["class"]), Errand, "an errand"))
    return errand
