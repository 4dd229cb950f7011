"""A fleet of machines that take tasks, and one driver that takes their results: simulated event by event."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

Task = tuple[float, float]
"""Seconds that a machine works on it, and bytes of its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Machines, and what every environment has to measure: each of `workloads` so many times (`copies`). A machine
    fails on average once in `hours_between_failures` of work and is away for `repair_hours`; `killed` is the share of
    tasks whose process is killed, `left_out` the share of machines that measure nothing. The driver works `driver_s` on
    each result."""

    machines: int
    workloads: int
    environments: int
    copies: int = 3
    hours_between_failures: float = math.inf
    repair_hours: float = 0.0
    killed: float = 0.0
    left_out: float = 0.0
    driver_s: float = 0.0
    seed: int = 0

    def sizes(self) -> list[int]:
        """Machines of each environment that measure: the k-th most common has 1/k of the first one's, at least one."""
        weights = [1 / (k + 1) for k in range(self.environments)]
        usable = round(self.machines * (1 - self.left_out))
        return [max(1, math.floor(usable * weight / sum(weights))) for weight in weights]


@dataclass(slots=True, kw_only=True)
class Run:
    """What came of it. All environments have all of theirs after `measured_s`, half of them after `half_s`; the last
    one has `last_machines`. At most so many results were `waiting` for the driver at once."""

    done: int = 0
    failures: int = 0
    killed: int = 0
    worked_s: float = 0.0
    lost_s: float = 0.0
    measured_s: float = 0.0
    written_s: float = 0.0
    half_s: float = 0.0
    last_machines: int = 0
    moved_bytes: float = 0.0
    waiting: int = 0
    waiting_bytes: float = 0.0


@dataclass(slots=True)
class _Driver:
    """Takes results one after another; what has come and is not taken yet waits."""

    each_s: float
    free_s: float = 0.0
    queue: deque[tuple[float, float]] = field(default_factory=deque)
    waiting_bytes: float = 0.0

    def take(self, now_s: float, size: float, run: Run) -> None:
        while self.queue and self.queue[0][0] <= now_s:
            self.waiting_bytes -= self.queue.popleft()[1]
        self.free_s = max(self.free_s, now_s) + self.each_s
        self.queue.append((self.free_s, size))
        self.waiting_bytes += size
        run.waiting = max(run.waiting, len(self.queue))
        run.waiting_bytes = max(run.waiting_bytes, self.waiting_bytes)
        run.moved_bytes += size


def simulate(fleet: Fleet, tasks: Sequence[Task]) -> Run:
    """Every environment measures its workloads, which are drawn from `tasks`: seconds, and bytes of the result. The
    longest begin first. A task that is lost goes back to the end of its environment's queue."""
    chance = random.Random(fleet.seed)
    drawn = sorted(chance.choices(tasks, k=fleet.workloads), reverse=True)
    sizes = fleet.sizes()
    queues = [deque(task for task in drawn for _ in range(fleet.copies)) for _ in sizes]
    left = [len(queue) for queue in queues]
    ended_s = [0.0] * len(sizes)
    run, driver = Run(), _Driver(fleet.driver_s)
    idle = [0] * len(sizes)
    events: list[tuple[float, int, int, Task | None]] = []
    number = 0

    def begin(environment: int, now_s: float) -> None:
        """A machine of this environment takes its next task, or waits for one that is lost."""
        nonlocal number
        if not queues[environment]:
            idle[environment] += 1
            return
        number += 1
        task = queues[environment].popleft()
        length_s = task[0]
        until_failure_s = chance.expovariate(1.0) * 3600 * fleet.hours_between_failures
        if until_failure_s < length_s:
            run.failures += 1
            lose(environment, task, until_failure_s)
            heapq.heappush(events, (now_s + until_failure_s + 3600 * fleet.repair_hours, number, environment, None))
        elif chance.random() < fleet.killed:
            run.killed += 1
            after_s = chance.uniform(0, length_s)
            lose(environment, task, after_s)
            heapq.heappush(events, (now_s + after_s, number, environment, None))
        else:
            run.worked_s += length_s
            heapq.heappush(events, (now_s + length_s, number, environment, task))

    def lose(environment: int, task: Task, after_s: float) -> None:
        run.worked_s += after_s
        run.lost_s += after_s
        queues[environment].append(task)

    for environment, size in enumerate(sizes):
        for _ in range(size):
            begin(environment, 0.0)
    while events:
        now_s, _, environment, task = heapq.heappop(events)
        if task is not None:
            run.done += 1
            left[environment] -= 1
            ended_s[environment] = now_s
            driver.take(now_s, task[1], run)
        begin(environment, now_s)
        while idle[environment] and queues[environment]:
            idle[environment] -= 1
            begin(environment, now_s)
    assert not any(left)
    last = max(range(len(sizes)), key=ended_s.__getitem__)
    run.measured_s, run.last_machines = ended_s[last], sizes[last]
    run.half_s = sorted(ended_s)[(len(sizes) - 1) // 2]
    run.written_s = driver.free_s
    return run
