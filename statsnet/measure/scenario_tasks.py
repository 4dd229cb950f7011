"""The task that answers queries with steps, in a process of its own."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, TypeVar

import torch

from statsnet.environment import describe, select
from statsnet.errors import MeasurementError
from statsnet.measure.control import Job
from statsnet.measure.loadgen import Load, play
from statsnet.measure.patience import PATIENCE
from statsnet.measure.process import MeasuringProcess, run_job
from statsnet.measure.task import Context, Event, Task
from statsnet.measure.timing import time_once, warm_up
from statsnet.measure.timing_tasks import TimeNetwork, TimeWorkload
from statsnet.measure.turns import WARM_UP_S
from statsnet.signatures.scenarios import Answers
from statsnet.workloads.settings import record, wrap_step

DRAWN = 10_000
"""Samples that the load generator draws from: each stands for one of the models, as often as its share asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    answers: Answers
    environment: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class AnswerQueries(Task[Answered]):
    """A query is answered with one step: of a proxy's `network`, or of one of the `models`, drawn by their `shares`.

    One that takes turns with others begins when it is told to.
    """

    load: Load
    network: TimeNetwork | None = None
    models: tuple[TimeWorkload, ...] = ()
    shares: tuple[float, ...] = (1.0,)

    @property
    def subjects(self) -> Sequence[TimeNetwork | TimeWorkload]:
        """All on one device."""
        return self.models if self.network is None else (self.network,)

    @property
    def measured_device(self) -> str:
        return self.subjects[0].device

    def run(self, context: Context) -> Answered:
        subjects = self.subjects
        select(self.measured_device)
        steps = [_finished(subject.step(context), subject.device, context) for subject in subjects]
        limit_s = min(WARM_UP_S, self.load.rules.min_time_s)
        step_s = sum(share * _usual_s(step, limit_s) for share, step in zip(self.shares, steps, strict=True))
        if context.turns is not None:
            context.say(Event(ready=True))
            next(iter(context.turns), None)
        drawn = drawn_by(self.shares, self.load.seed)
        answers = play(self.load, lambda index: steps[drawn[index]](), step_s=step_s, kinds=len(drawn))
        environment = describe(subjects[0].device)
        environment["settings"] |= record(context.setting)
        return Answered(answers=answers, environment=environment)


def _finished(step: Callable[[], Any], device: str, context: Context) -> Callable[[], Any]:
    """The step under the setting; on a GPU it ends when the GPU has done it."""
    wrapped = wrap_step(context.setting, step, device)
    if not device.startswith("cuda"):
        return wrapped

    def run() -> None:
        wrapped()
        torch.cuda.synchronize(device)

    return run


def _usual_s(step: Callable[[], Any], limit_s: float) -> float:
    """A step's time once it is warm."""
    step()  # compiles, where the setting says so
    times, _ = warm_up(partial(time_once, step, "cpu", time.perf_counter), window_s=limit_s / 10, limit_s=limit_s)
    return median(times[len(times) // 2 :])


def drawn_by(shares: Sequence[float], seed: int = 0) -> list[int]:
    """For each sample, whose it is: as many of each as its share asks for (largest remainders), one at least, in a
    random order. Of a single one there is one sample."""
    if len(shares) == 1:
        return [0]
    total = sum(shares)
    exact = [DRAWN * share / total for share in shares]
    counts = [max(1, int(each)) for each in exact]
    for index in sorted(range(len(shares)), key=lambda i: int(exact[i]) - exact[i])[: max(0, DRAWN - sum(counts))]:
        counts[index] += 1
    drawn = [index for index, count in enumerate(counts) for _ in range(count)]
    random.Random(seed).shuffle(drawn)
    return drawn


R = TypeVar("R")


def run_together(jobs: Sequence[Job[R]]) -> list[R]:
    """Results of the jobs, in their order. Each gets ready in a process of its own, says so, and waits for a turn; all
    get it when the last is ready. One job alone is simply run. Raises what the tasks raise."""
    if len(jobs) == 1:
        return [run_job(jobs[0])]
    with contextlib.ExitStack() as stack:
        running = []
        for job in jobs:
            process = stack.enter_context(MeasuringProcess(job.task, job.control, takes_turns=True))
            events = process.events()
            if not any(event.ready for event in events):
                process.result()  # says why
                raise MeasurementError("a measuring process ended before its turn", hint="measure again")
            running.append((process, events))
        for process, _ in running:
            process.tell(str(PATIENCE.spent_s))
        results = []
        for process, events in running:
            for _ in events:
                pass
            results.append(process.result())
        return results
