"""Programs in processes that are forked from one which has imported torch: a fresh Python takes seconds to do so."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

# Networks with collectives import torch's compiler, for more than a second in each process. The server of processes
# does so itself once a task has imported this.
import statsnet.profiling.capture  # noqa: F401
from statsnet.measure.process import run
from statsnet.measure.task import Context, Task


def without_ours() -> dict[str, str]:
    """Variables of a program that knows nothing of this checkout."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "STATSNET_", "PYTHON"))}


def forked(
    *words: str, folder: Path, ranks: int = 0, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What `python WORDS` comes to in a folder; or, with `ranks`, `torchrun` of as many processes. They keep the
    system's allocator: to have another, networks would begin anew, in a fresh Python."""
    variables = {**(variables or without_ours()), "STATSNET_ALLOCATOR": "system"}
    code = run(Program(words=words, folder=str(folder), ranks=ranks, variables=variables))
    out, errors = ((folder / name).read_text() for name in ("stdout", "stderr"))
    return subprocess.CompletedProcess(words, code, out, errors)


@dataclass(frozen=True)
class Program(Task[int]):
    """Comes to its exit code. What it prints is in files of the folder."""

    words: tuple[str, ...]
    folder: str
    ranks: int
    variables: dict[str, str]

    def run(self, context: Context) -> int:
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.variables)
        for number, name in ((1, "stdout"), (2, "stderr")):
            with open(name, "w") as file:
                os.dup2(file.fileno(), number)
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(write_through=True)  # type: ignore[union-attr]
        return _exit_code(partial(_torchrun, self.ranks, self.words) if self.ranks else partial(_python, *self.words))


def _exit_code(program: Callable[[], None]) -> int:
    try:
        program()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def _python(file: str, *arguments: str) -> None:
    if file == "-m":
        module, *sys.argv[1:] = arguments
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    sys.argv[:] = [file, *arguments]
    sys.path.insert(0, os.path.dirname(file))
    runpy.run_path(file, run_name="__main__")


def _torchrun(ranks: int, words: Sequence[str]) -> None:
    """Its own program, but for the start of the ranks."""
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

    SubprocessHandler._popen = lambda _, command, variables: _Rank(command, variables)
    torchrun.main(["--standalone", "--nproc-per-node", str(ranks), *words])


class _Rank:
    """Used like a subprocess.Popen of `python -u SCRIPT ARGUMENTS`."""

    def __init__(self, command: Sequence[str], variables: Mapping[str, str]) -> None:
        _, _, *words = command
        fork = multiprocessing.get_context("fork")
        self._process = fork.Process(target=_be_a_rank, args=(words, variables))
        self._process.start()
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if (code := self._process.exitcode) is None:
            raise subprocess.TimeoutExpired("a rank", timeout or 0.0)
        return code


def _be_a_rank(words: Sequence[str], variables: Mapping[str, str]) -> None:
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)  # torchrun handles them
    os.environ.update(variables)
    sys.exit(_exit_code(partial(_python, *words)))
