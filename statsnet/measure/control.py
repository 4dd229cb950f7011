"""How a task's process is run, apart from what the task measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from statsnet.measure.task import Task
from statsnet.workloads.settings import BASELINE, Setting

R = TypeVar("R")

JOB_LIMIT_S = 14_400.0
"""Longest time of a process that runs what a file asks for: a proxy, a signature's operators, a model of its sizes. A
proxy of the largest GPU takes minutes a step on a CPU; what a stranger asks for may never end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """`label` names the task in progress and errors. If a task of a group `may_fail`, its failure is a result (Failure)
    and no error. It may take `timeout_s` in all, and `silent_s` without a word of its progress. `peak_bytes` is the
    memory that it is known to need. `under` is put before the process's command, as for ncu. `rank_env` are variables
    of one of several processes, which libraries read when it joins the others, and not before. `writes` are folders of
    this command's, beside the process's own, that it may write to in a sandbox."""

    setting: Setting = BASELINE
    label: str = ""
    timeout_s: float | None = None
    silent_s: float | None = None
    may_fail: bool = False
    peak_bytes: int | None = None
    under: Sequence[str] = ()
    env: dict[str, str] = field(default_factory=dict)
    rank_env: dict[str, str] = field(default_factory=dict)
    writes: Sequence[str] = ()


DEFAULT = Control()
"""As this process runs, without a limit."""


@dataclass(frozen=True, slots=True)
class Job(Generic[R]):
    """A task and the control of its process."""

    task: Task[R]
    control: Control = DEFAULT

    @property
    def label(self) -> str:
        return self.control.label or type(self.task).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The result of a task that was allowed to fail, and did: `why` in one line."""

    why: str
