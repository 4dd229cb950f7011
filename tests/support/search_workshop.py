"""Searches on a simulated machine: in this process, or by several workers that are processes of their own.

As a program: for each line `STORAGE TRIALS` of its input it forks three workers. The first kills itself in its second
design. The others print what they found, a line each; a third line has how each of the workers ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from synthesis_builders import SimulatedBench, mix_of, small_problem, small_signature

from statsnet.signatures.mix import Mix
from statsnet.synthesis import search as searching
from statsnet.synthesis.problem import Design, Problem, ProxyRequest
from statsnet.synthesis.rounds import build_and_measure
from statsnet.synthesis.search import SearchLimits, search
from statsnet.synthesis.study import Heartbeat
from statsnet.synthesis.study_storage import study_storage
from statsnet.synthesis.trials import Knowledge

REPLACED = ("prepare", "for_design", "build_and_measure", "finish")
QUICK = Heartbeat(beat_s=0.05, lost_after_s=3.0, look_s=0.2, retries_s=())
WORKERS = 3


class Workshop:
    """Problems on the simulated machine, and what is done with them."""

    def __init__(self) -> None:
        self.attempts = 0
        self.made: list[tuple[Problem, int]] = []
        self.slowness = 1.0
        self.prepared: list[Design] = []
        self.fails_at: int | None = None

    def prepare(self, _mix: Mix, bench: Any, request: ProxyRequest, design: Design) -> Problem:
        self.prepared.append(design)
        problem = small_problem(bench, design)
        return replace(problem, budget_s=self.slowness * problem.budget_s)

    def for_design(self, problem: Problem, design: Design) -> Problem:
        """As if blocks of other sizes had been measured."""
        return replace(problem, design=design, costs=small_problem(problem.bench, design).costs)

    def build_and_measure(self, *args: Any, **more: Any) -> Knowledge:
        if self.attempts == self.fails_at:
            raise KeyboardInterrupt
        self.attempts += 1
        return build_and_measure(*args, **more)

    def finish(self, problem: Problem, *, known: Knowledge | None = None, **_: Any) -> Any:
        self.made.append((problem, len(known.trials) if known else 0))
        return SimpleNamespace(spec=SimpleNamespace(id="sha256:1"))


def work(url: str, trials: int, number: int, until_dead: int) -> None:
    """One worker's search, in which a design takes no time. The second one of the first worker kills it, those of the
    others last until then: `until_dead` can be read once it is dead."""
    shop, begun = Workshop(), []
    for name in REPLACED:
        setattr(searching, name, getattr(shop, name))

    def try_out(_: Any, design: Design, share: float) -> tuple[float, float]:
        begun.append(design)
        if len(begun) == 2:
            if not number:
                os.kill(os.getpid(), signal.SIGKILL)
            os.read(until_dead, 1)
        return abs(design.size - 0.8) + design.order / share, share * design.max_distinct

    searching.ProblemPool.try_out = try_out  # type: ignore[method-assign]
    bench: Any = SimulatedBench()
    result = search(
        mix_of(small_signature()),
        bench,
        ProxyRequest(mix_text="a:1"),
        storage=study_storage(url),
        limits=SearchLimits(trials=trials),
        heartbeat=QUICK,
    )
    usual = [t.number for t in result.tried if t.design == Design() and t.share == 1.0]
    numbers = [t.number for t in result.tried]
    print(json.dumps({"numbers": numbers, "usual": usual, "tried": len(begun)}), flush=True)


def forked(url: str, trials: int) -> Iterator[int]:
    """The exit statuses of the workers."""
    until_dead, alive = os.pipe()
    begun = []
    for number in range(WORKERS):
        if (pid := os.fork()) == 0:
            os.close(until_dead if not number else alive)
            try:
                work(url, trials, number, until_dead)
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        begun.append(pid)
    os.close(alive)
    for pid in begun:
        yield os.waitpid(pid, 0)[1]


if __name__ == "__main__":
    small_problem()  # for what it imports: once for all of them
    for line in sys.stdin:
        where, most = line.split()
        if not where.startswith("grpc:"):  # which cannot be forked
            study_storage(where).check()
        print(json.dumps(list(forked(where, int(most)))), flush=True)
