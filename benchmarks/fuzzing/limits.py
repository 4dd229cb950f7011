"""What a reader may do with a file that anybody wrote: within a time, within memory, and to no other file."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statsnet.errors import StatsNetError

TIME_S = 2.0
"""Of the processor, so that neighbours do not matter."""

TOO_SLOW = "too slow"
"""The kind of failure of what takes longer."""

MEMORY_BYTES = 1 << 30
"""Beside what the process had before."""

LOOKED_AT = 500
"""After so many inputs it is asked again how much the process has."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
    "shutil.rmtree", "os.chown", "os.utime",
}  # fmt: skip
_NEVER = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "socket.bind"}
_HEARD = frozenset({"open", *_CHANGES, *_NEVER})


class TooSlow(BaseException):
    """No Exception, so that nothing catches it on the way."""


class Forbidden(BaseException):
    """Something outside was about to be changed or started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a reader did that it must not: `kind` in a word, `where` the last place in the product's code."""

    kind: str
    where: str
    text: str


class Watch:
    """Runs a reader within the limits. Writing is allowed in `folder` alone. There is one in a process: what Python
    tells of opened files cannot be unheard, and its limit of memory stays. That limit and the signal are set seldom, as
    many inputs take less time than this does."""

    def __init__(self, folder: Path, time_s: float = TIME_S) -> None:
        self._folder = os.path.realpath(folder)
        self._watching = False
        self._runs = 0
        self.took_s, self._time_s = 0.0, time_s
        self._most_memory = resource.getrlimit(resource.RLIMIT_AS)[1]
        signal.signal(signal.SIGPROF, self._too_slow)
        sys.addaudithook(self._hear)

    def run(self, read: Callable[[], object]) -> tuple[bool, Failure | None]:
        """Whether the input was taken in; and what the reader did wrong, if anything. `took_s` is then its time."""
        if self._runs % LOOKED_AT == 0:
            resource.setrlimit(resource.RLIMIT_AS, (_memory_bytes() + MEMORY_BYTES, self._most_memory))
        self._runs += 1
        before_s = time.process_time()
        try:
            self._watching = True
            signal.setitimer(signal.ITIMER_PROF, self._time_s)
            try:
                read()
            finally:
                self._watching = False
            return True, None
        except StatsNetError:
            return False, None
        except TooSlow as error:
            return False, _failure(TOO_SLOW, error)
        except Forbidden as error:
            return False, _failure("not allowed", error)
        except MemoryError as error:
            return False, _failure("too much memory", error)
        except RecursionError as error:
            return False, _failure("nested too deeply", error)
        except Exception as error:
            return False, _failure("crash", error)
        finally:
            self.took_s = time.process_time() - before_s

    @contextlib.contextmanager
    def forbidding(self) -> Iterator[None]:
        """Within, only what it may not do is kept from it, and what it raises is raised."""
        self._watching = True
        try:
            yield
        finally:
            self._watching = False

    def _too_slow(self, _number: int, _frame: object) -> None:
        if self._watching:
            raise TooSlow("it takes too long")

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._watching or event not in _HEARD:
            return
        if event in _NEVER:
            raise Forbidden(f"{event}{arguments!r:.200}")
        if not all(map(self._is_inside, changed_paths(event, arguments))):
            raise Forbidden(f"{event}{arguments!r:.200}")

    def _is_inside(self, path: Any) -> bool:
        if isinstance(path, int):  # a file that was opened before
            return True
        name = os.path.realpath(os.fsdecode(path))
        return f"{name}{os.sep}".startswith(self._folder + os.sep) or name == os.devnull or "__pycache__" in name


def changed_paths(event: str, arguments: tuple[Any, ...]) -> Iterator[Any]:
    """What an event that Python tells its auditors changes: paths, and descriptors of files that are open. Nothing if
    it changes no file."""
    if event == "open":
        path, mode, flags = (*arguments, 0, 0, 0)[:3]
        writes = bool(flags & _WRITING) if isinstance(flags, int) and flags else any(c in str(mode) for c in "wax+")
        yield from (path,) if writes else ()
    elif event in _CHANGES:
        yield from _places(event, arguments)


def _places(event: str, arguments: tuple[Any, ...]) -> Iterator[Any]:
    """What the event changes: where a folder is given by its descriptor, the path is one in that folder."""
    if event == "os.symlink":  # what it points to is not touched
        arguments = arguments[1:]
    paths = [each for each in arguments if isinstance(each, str | bytes | os.PathLike)] or arguments[:1]
    descriptors = [each for each in arguments[len(paths) :] if isinstance(each, int)]
    is_within = event != "os.truncate" and descriptors[-1:] > [2]
    folder = os.readlink(f"/proc/self/fd/{descriptors[-1]}") if is_within else ""
    for path in paths:
        yield path if isinstance(path, int) else os.path.join(os.fsencode(folder), os.fsencode(path))


def _memory_bytes() -> int:
    """That this process has now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _failure(kind: str, error: BaseException) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}statsnet{os.sep}" in frame.filename]
    last = ours[-1] if ours else frames[-1]
    where = f"{Path(last.filename).name}:{last.lineno}"
    return Failure(kind=f"{kind}: {type(error).__name__}", where=where, text=f"{type(error).__name__}: {error}"[:300])
