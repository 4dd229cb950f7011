"""Searches on a simulated machine: in this process, or by several workers that are processes of their own.

As a program: for each line `STORAGE TRIALS [PROGRAM]` of its input it forks three workers. The first kills itself in
its second design, or runs the program there. One line of the output tells how each of them ended, and what those have
found that came to an end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from synthesis_builders import SimulatedBench, mix_of, small_problem, small_signature

from statsnet.signatures.mix import Mix
from statsnet.synthesis.chosen_network import build_and_measure
from statsnet.synthesis.problem import Design, Problem, ProxyRequest
from statsnet.synthesis.search import search as searching
from statsnet.synthesis.search.search import SearchLimits, search
from statsnet.synthesis.search.study import Heartbeat
from statsnet.synthesis.search.study_storage import study_storage
from statsnet.synthesis.trials import Knowledge

REPLACED = ("prepare", "for_design", "build_and_measure", "finish")
QUICK = Heartbeat(beat_s=0.05, lost_after_s=3.0, look_s=0.2, patience_s=30.0, pause_s=0.1)
WORKERS = 3
PATIENT = replace(QUICK, lost_after_s=60.0)
"""Where nobody is killed: while a database restarts on a busy machine, one that lives may be silent for seconds."""
LIMIT_S = 90
"""A worker that has not ended by then is ended by the system."""


class Workshop:
    """Problems on the simulated machine, and what is done with them."""

    def __init__(self) -> None:
        self.attempts = 0
        self.made: list[tuple[Problem, int]] = []
        self.slowness = 1.0
        self.prepared: list[Design] = []
        self.fails_at: int | None = None
        self.failure: BaseException = KeyboardInterrupt()

    def prepare(self, _mix: Mix, bench: Any, request: ProxyRequest, design: Design) -> Problem:
        self.prepared.append(design)
        problem = small_problem(bench, design)
        return replace(problem, budget_s=self.slowness * problem.budget_s)

    def for_design(self, problem: Problem, design: Design) -> Problem:
        """As if blocks of other sizes had been measured."""
        return replace(problem, design=design, costs=small_problem(problem.bench, design).costs)

    def build_and_measure(self, *args: Any, **more: Any) -> Knowledge:
        if self.attempts == self.fails_at:
            raise self.failure
        self.attempts += 1
        return build_and_measure(*args, **more)

    def finish(self, problem: Problem, *, known: Knowledge | None = None, **_: Any) -> Any:
        self.made.append((problem, len(known.trials) if known else 0))
        return SimpleNamespace(spec=SimpleNamespace(id="sha256:1", level=None))


def work(url: str, trials: int, number: int, until_done: int, program: str | None) -> dict[str, Any]:
    """One worker's search, in which a design takes no time. The second one of the first worker kills it or runs the
    program, those of the others last until then: `until_done` can be read once that is done, or that worker is."""
    shop, begun = Workshop(), []
    for name in REPLACED:
        setattr(searching, name, getattr(shop, name))

    def try_out(_: Any, design: Design, share: float) -> tuple[float, float]:
        begun.append(design)
        if len(begun) == 2:
            if number:
                os.read(until_done, 1)
            elif program is None:
                os.kill(os.getpid(), signal.SIGKILL)
            else:
                subprocess.run([program], check=True, stdout=subprocess.DEVNULL)
                os.close(until_done)
        return abs(design.size - 0.8) + design.order / share, share * design.max_distinct

    searching.ProblemPool.try_out = try_out  # type: ignore[method-assign]
    bench: Any = SimulatedBench()
    result = search(
        mix_of(small_signature()),
        bench,
        ProxyRequest(mix_text="a:1"),
        storage=study_storage(url),
        limits=SearchLimits(trials=trials),
        heartbeat=PATIENT if program else QUICK,
    )
    usual = [t.number for t in result.tried if t.design == Design() and t.share == 1.0]
    return {"numbers": [t.number for t in result.tried], "usual": usual, "tried": len(begun)}


def forked(url: str, trials: int, program: str | None = None) -> dict[str, Any]:
    """The exit statuses of the workers, and what those found that ended well."""
    until_done, undone = os.pipe()
    begun = []
    for number in range(WORKERS):
        to_read, to_write = os.pipe()
        if (pid := os.fork()) == 0:
            signal.alarm(LIMIT_S)
            os.close(undone if number else until_done)
            try:
                found = work(url, trials, number, until_done if number else undone, program)
                os.write(to_write, json.dumps(found).encode())
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        os.close(to_write)
        begun.append((pid, to_read))
    for end in (until_done, undone):
        os.close(end)
    ended = [os.waitpid(pid, 0)[1] for pid, _ in begun]
    texts = [os.read(to_read, 1 << 16) for _, to_read in begun]
    return {"ended": ended, "found": [json.loads(text) for text in texts if text]}


if __name__ == "__main__":
    small_problem()  # for what it imports: once for all of them
    for line in sys.stdin:
        where, most, *programs = line.split()
        if not where.startswith("grpc:"):  # which cannot be forked
            study_storage(where).check()
        print(json.dumps(forked(where, int(most), *programs)), flush=True)
