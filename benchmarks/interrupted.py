"""A command of StatsNet that meets a signal, or a full disk, at its n-th change of a file below a folder."""

from __future__ import annotations

import errno
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fuzzing.limits import changed_paths
from statsnet.cli import main

FULL, NEVER = "full", "never"
SAYS = "files were changed so often: "
_TAKES_NO_ROOM = {"os.remove", "os.rmdir", "os.rename", "os.truncate", "shutil.rmtree"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """`how` is NEVER, a signal (`KILL`, `TERM`, ...) or FULL: then this change and all later ones that take room fail.
    Only what the command's own process changes below `folder` counts, not what its children do."""

    folder: Path
    how: str = NEVER
    at: int = 0


def run(
    words: Sequence[str], here: Path, variables: Mapping[str, str], output: Path, interruption: Interruption
) -> None:
    """Be a new process of that command, after a fork: what it imports is there already. It ends the process. If it ends
    by itself, the last line of its output says how many changes there were."""
    with open(output, "wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    os.chdir(here)
    os.environ |= variables
    tempfile.tempdir = None
    hook = _Hook(interruption)
    sys.addaudithook(hook.hear)
    code = main(words)
    print(f"{SAYS}{hook.changes}", file=sys.stderr, flush=True)
    os._exit(code)


class _Hook:
    def __init__(self, interruption: Interruption) -> None:
        self._how, self._at = interruption.how, interruption.at
        self._folder = os.path.realpath(interruption.folder) + os.sep
        self.changes = 0

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not any(map(self._is_inside, changed_paths(event, arguments))):
            return
        self.changes += 1
        if self._how == FULL:
            if self.changes >= self._at and event not in _TAKES_NO_ROOM:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fsdecode(arguments[0]))
        elif self.changes == self._at and self._how != NEVER:
            os.kill(os.getpid(), signal.Signals[f"SIG{self._how}"])

    def _is_inside(self, path: Any) -> bool:
        return not isinstance(path, int) and os.path.realpath(os.fsdecode(path)).startswith(self._folder)
