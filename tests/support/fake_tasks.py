"""Tasks for tests of measuring processes, and every way in which one can go wrong."""

from __future__ import annotations

import atexit
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from statsnet.errors import WorkloadError
from statsnet.measure.patience import PATIENCE
from statsnet.measure.task import Context, CountableTask, Progress, Task

VARIABLES = ("OMP_NUM_THREADS", "MALLOC_TOP_PAD_", "ONEDNN_MAX_CPU_ISA", "EXTRA")


@dataclass(frozen=True)
class Environment(CountableTask[dict[str, Any]]):
    def run(self, context: Context) -> dict[str, Any]:
        variables = {name: os.environ.get(name) for name in VARIABLES}
        return {**variables, "path": sys.path, "pid": os.getpid()}

    def launch(self, context: Context) -> None:
        assert context.setting.name


@dataclass(frozen=True)
class Doubling(Task[tuple[float, ...]]):
    question: float

    def run(self, context: Context) -> tuple[float, ...]:
        for done in (0.0, 0.5):
            context.report(Progress(stage="working", done=done))
        print("noise on stdout")
        return (self.question * 2,)


@dataclass(frozen=True)
class Waiting(Task[tuple[float, float]]):
    """Spends seconds of the command's patience; returns what had been spent before, and what is left."""

    seconds: float

    def run(self, context: Context) -> tuple[float, float]:
        before_s = PATIENCE.spent_s
        PATIENCE.spend(self.seconds)
        return before_s, PATIENCE.left_s(time.monotonic())


@dataclass(frozen=True)
class Raising(Task[None]):
    def run(self, context: Context) -> None:
        raise RuntimeError("the sky fell")


@dataclass(frozen=True)
class Refusing(CountableTask[None]):
    def run(self, context: Context) -> None:
        raise WorkloadError("no such model", cause="it was never made", hint="make it")

    def launch(self, context: Context) -> None:
        self.run(context)


@dataclass(frozen=True)
class Killed(Task[None]):
    signal: int = signal.SIGKILL

    def run(self, context: Context) -> None:
        os.kill(os.getpid(), self.signal)


@dataclass(frozen=True)
class AbortedAfterItsResult(Task[int]):
    def run(self, context: Context) -> int:
        atexit.register(os.abort)
        return 42


@dataclass(frozen=True)
class NotANumber(Task[float]):
    def run(self, context: Context) -> float:
        return math.nan


@dataclass(frozen=True)
class Hanging(Task[None]):
    pids: str

    def run(self, context: Context) -> None:
        helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open(self.pids, "w") as file:
            json.dump([os.getpid(), helper.pid], file)
        context.report(Progress(stage="hanging"))
        time.sleep(600)
