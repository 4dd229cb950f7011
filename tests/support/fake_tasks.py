"""Tasks for tests of measuring processes, and every way in which one can go wrong."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import importlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from statsnet.errors import WorkloadError
from statsnet.measure.patience import PATIENCE
from statsnet.measure.task import Context, CountableTask, Event, Progress, Task
from statsnet.workloads.loading import resolve

VARIABLES = ("OMP_NUM_THREADS", "MALLOC_TOP_PAD_", "ONEDNN_MAX_CPU_ISA", "EXTRA")


@dataclass(frozen=True)
class Environment(CountableTask[dict[str, Any]]):
    def run(self, context: Context) -> dict[str, Any]:
        variables = {name: os.environ.get(name) for name in VARIABLES}
        return {
            **variables,
            "path": sys.path,
            "pid": os.getpid(),
            "parent": os.getppid(),
            "arguments": sys.argv[1:],
            "directory": os.getcwd(),
        }

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
class Measuring(Task[None]):
    """Measures once, while the machine is at its best or not."""

    at_best: bool

    def run(self, context: Context) -> None:
        PATIENCE.count(at_best=self.at_best)


@dataclass(frozen=True)
class Variable(Task[str]):
    """A variable of the process's environment, or nothing."""

    name: str

    def run(self, context: Context) -> str:
        return os.environ.get(self.name, "")


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
class TooLong(Task[str]):
    """Its result does not fit into a file, as where a limit on files' sizes holds."""

    def run(self, context: Context) -> str:
        sys.dont_write_bytecode = True  # Python would keep what was cut off, and read it later
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        return "x" * 10_000


@dataclass(frozen=True)
class Placement(Task[tuple[int, int]]):
    """Addresses of a large block and of one on the heap. A smaller one might fill a hole that every copy has."""

    def run(self, context: Context) -> tuple[int, int]:
        import torch

        return torch.empty(1_000_000).data_ptr(), torch.empty(20_000).data_ptr()


@dataclass(frozen=True)
class Drawing(Task[tuple[float, float]]):
    """What nobody has seeded."""

    def run(self, context: Context) -> tuple[float, float]:
        import random

        import numpy as np

        return random.random(), float(np.random.random())


@dataclass(frozen=True)
class Importing(Task[bool]):
    """Imports a module; returns whether it was there already."""

    module: str

    def run(self, context: Context) -> bool:
        was_there = self.module in sys.modules
        importlib.import_module(self.module)
        return was_there


@dataclass(frozen=True)
class ImportingAsWell(Importing):
    """Another class of task."""


@dataclass(frozen=True)
class ChangingASetting(Importing):
    """As some libraries do when they are imported."""

    def run(self, context: Context) -> bool:
        os.environ["OMP_DYNAMIC"] = "true"
        return super().run(context)


@dataclass(frozen=True)
class Calling(Task[int]):
    """Calls a factory as workloads are found."""

    target: str

    def run(self, context: Context) -> int:
        return int(resolve(self.target).factory())


@dataclass(frozen=True)
class InParallel(Task[int]):
    """Imports modules and runs operators in several threads, torch's and numpy's; returns torch's number of threads. Or
    it only says that it has imported them."""

    modules: tuple[str, ...]
    only_says_so: bool = False

    def run(self, context: Context) -> int:
        if self.only_says_so:
            sys.modules.update({name: ModuleType(name) for name in self.modules})
            return 0
        import numpy as np
        import torch

        for module in self.modules:
            importlib.import_module(module)
        square = torch.rand(2000, 2000)
        assert torch.isfinite(torch.exp(square @ square - 2000)).all()
        assert torch.exp(torch.zeros(10_000_000)).sum() == 10_000_000
        numbers = np.ones((1000, 1000))
        assert (numbers @ numbers == 1000).all()
        assert not torch.cuda.is_initialized()
        return torch.get_num_threads()


@dataclass(frozen=True)
class KillingItsParent(Task[None]):
    pids: str

    def run(self, context: Context) -> None:
        with open(self.pids, "w") as file:
            json.dump([os.getpid(), os.getppid()], file)
        print("the last words")
        sys.stdout.flush()
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)


@dataclass(frozen=True)
class Hanging(Task[None]):
    pids: str

    def run(self, context: Context) -> None:
        helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open(self.pids, "w") as file:
            json.dump([os.getpid(), helper.pid], file)
        context.report(Progress(stage="hanging"))
        time.sleep(600)


@dataclass(frozen=True)
class Meeting(Task[tuple[float, float]]):
    """Says that it is ready and waits to be told; returns when it was ready and when it went on."""

    refuses: bool = False

    def run(self, context: Context) -> tuple[float, float]:
        if self.refuses:
            raise WorkloadError("it does not come")
        ready_s = time.monotonic()
        context.say(Event(ready=True))
        if context.turns is not None:
            next(iter(context.turns))
        return ready_s, time.monotonic()


@dataclass(frozen=True)
class Taking(Task[None]):
    """Takes memory until it is ended, or has so much; it may stay with that until it is ended."""

    megabytes: int
    stays: bool = False

    def run(self, context: Context) -> None:
        taken = []
        for _ in range(self.megabytes // 100):
            taken.append(bytearray(b"\1") * 100_000_000)
            time.sleep(0.1)
        if self.stays:
            time.sleep(600)


@dataclass(frozen=True)
class Escaping(Task[dict[str, bool]]):
    """What a process may do: write into a folder, reach a port of this machine, speak with a program that listens at a
    file, and use temporary files."""

    folder: str
    port: int
    socket: str = "missing"

    def run(self, context: Context) -> dict[str, bool]:
        import socket
        import tempfile

        done = {"writes": False, "connects": False, "speaks": False, "temporary": False}
        with contextlib.suppress(OSError):
            with open(os.path.join(self.folder, "statsnet-escaped"), "w"):
                done["writes"] = True
        with contextlib.suppress(OSError):
            with socket.create_connection(("127.0.0.1", self.port), timeout=10):
                done["connects"] = True
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as line:
            line.connect(self.socket)
            done["speaks"] = True
        with tempfile.TemporaryFile():
            done["temporary"] = True
        return done


@dataclass(frozen=True)
class HangingOnce(Task[int]):
    """The first of them writes its process's number and hangs; later ones return theirs."""

    file: str

    def run(self, context: Context) -> int:
        try:
            with open(self.file, "x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return os.getpid()
        time.sleep(600)
        return 0


@dataclass(frozen=True)
class LockIsHeld(Task[bool]):
    """Whether somebody measures on the CPU, by the lock in a folder."""

    folder: str

    def run(self, context: Context) -> bool:
        with open(os.path.join(self.folder, "statsnet-cpu.lock")) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False
