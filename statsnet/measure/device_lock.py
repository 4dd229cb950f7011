"""One command at a time measures on a device: two would measure each other.

A command takes a device's lock with its first measuring process there, and keeps it until it ends. A program that is no
command holds it while its processes run. The lock is a file that all users of the machine share and nobody writes.
Measuring processes inherit it: it is free again when the last of them has ended, whatever has ended the command.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import re
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from statsnet.environment.launch import run_of
from statsnet.errors import UsageError
from statsnet.measure.patience import PATIENCE

SWITCH = "STATSNET_DEVICE_LOCK"
"""0: no lock. Else the folder of the locks, instead of FOLDER."""

FOLDER = "/tmp"
"""Not $TMPDIR, which may be a user's own."""

ASK_AGAIN_S = 0.1
"""The system tells a process of a run of several nothing when the lock is free for it: it asks."""


def _warn(text: str) -> None:
    """Each time anew: a notebook's cell that is run again waits again."""
    warnings.warn_explicit(text, UserWarning, filename="<statsnet>", lineno=1)


class DeviceLocks:
    """Those that this process holds. `tell` is told when it has to wait for another program; all of its waiting took
    `waited_s`."""

    def __init__(self) -> None:
        self.tell: Callable[[str], object] = _warn
        self.waited_s = 0.0
        self._held: dict[str, int] = {}
        self._users: Counter[str] = Counter()
        self._commands = 0
        self._guard = threading.RLock()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """For a process that is to hold them too."""
        return tuple(self._held.values())

    def clock(self) -> float:
        """Seconds since some moment, without those of waiting for a lock."""
        return time.monotonic() - self.waited_s

    @contextlib.contextmanager
    def command(self) -> Iterator[None]:
        """What is taken within is kept until its end, and until that of other commands of this process."""
        with self._guard:
            self._commands += 1
        try:
            yield
        finally:
            with self._guard:
                self._commands -= 1
            self._release_unused()

    @contextlib.contextmanager
    def measuring_on(self, device: str) -> Iterator[None]:
        """Wait until no other program measures on `cpu`, `cuda` or `cuda:N`; another name needs no lock.

        Raises UsageError if SWITCH names no folder.
        """
        name = name_of(device)
        if name is None or _is_off():
            yield
            return
        with self._guard:
            self._users[name] += 1
            try:
                if name not in self._held:
                    self._take(name, device)
            except BaseException:
                self._users[name] -= 1
                raise
        try:
            yield
        finally:
            with self._guard:
                self._users[name] -= 1
            self._release_unused()

    def _take(self, name: str, device: str) -> None:
        descriptor = _opened(_folder() / f"statsnet-{name}.lock")
        if descriptor is None:  # measuring without a lock is better than not at all
            return
        try:
            try:
                _lock(descriptor)
            except BlockingIOError:
                self.tell(
                    f"another program of StatsNet measures on {device}: waiting for its end ({SWITCH}=0 does not wait)"
                )
                begin_s = time.monotonic()
                _wait_to_lock(descriptor)
                waited_s = time.monotonic() - begin_s
                self.waited_s += waited_s
                PATIENCE.begun_s += waited_s
        except OSError:  # a file system without locks
            os.close(descriptor)
            return
        except BaseException:  # Ctrl-C
            os.close(descriptor)
            raise
        self._held[name] = descriptor

    def _release_unused(self) -> None:
        with self._guard:
            for name in [name for name in self._held if not (self._commands or self._users[name])]:
                descriptor = self._held.pop(name)
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing would leave it to a process that has inherited it
                os.close(descriptor)


LOCKS = DeviceLocks()


def name_of(device: str) -> str | None:
    """What a device's lock is called: `cpu`, or a GPU by its number among all of the machine (by its UUID where
    CUDA_VISIBLE_DEVICES names that). None for what is not measured on."""
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return kind if kind == "cpu" else None
    visible = [part.strip() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    index = int(number) if number.isdecimal() else 0
    chosen = visible[index] if index < len(visible) else str(index)
    return f"cuda-{re.sub(r'[^A-Za-z0-9-]', '', chosen)[:60]}"


def require_folder(device: str) -> None:
    """Raises UsageError if SWITCH names no folder and the device needs a lock: a command that measures would otherwise
    take it for a failed model."""
    if name_of(device) is not None and not _is_off():
        _folder()


def _is_off() -> bool:
    return os.environ.get(SWITCH) == "0"


def _folder() -> Path:
    """Of the locks. Raises UsageError if SWITCH names none: two commands that lock in vain would measure each other."""
    folder = os.environ.get(SWITCH) or FOLDER
    if folder != FOLDER and not os.path.isdir(folder):
        raise UsageError(
            f"{SWITCH} is '{folder}', which is no folder",
            hint=f"{SWITCH}=0 measures without a lock; without the variable, the locks are in {FOLDER}",
        )
    return Path(folder)


def _lock(descriptor: int) -> None:
    """Alone, or with processes of the same run only. Raises BlockingIOError if others hold it."""
    run = run_of(os.environ)
    fcntl.flock(descriptor, (fcntl.LOCK_EX if run is None else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    if run is not None and any(other != run for other in _runs_that_share(descriptor)):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        raise BlockingIOError


def _wait_to_lock(descriptor: int) -> None:
    if run_of(os.environ) is None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return
    while True:
        with contextlib.suppress(BlockingIOError):
            _lock(descriptor)
            return
        time.sleep(ASK_AGAIN_S * random.uniform(0.5, 1.5))  # two that begin at once give way to each other


def _runs_that_share(descriptor: int) -> Iterator[str]:
    """The runs of the other processes that share the lock, as far as the system tells: empty for another user's."""
    held = rf"^\d+: FLOCK +ADVISORY +READ +(\d+) +\S+:{os.fstat(descriptor).st_ino} "
    with contextlib.suppress(OSError):  # other systems than Linux
        for holder in re.findall(held, Path("/proc/locks").read_text(encoding="ascii"), re.MULTILINE):
            # One without a run in its first variables was forked, and is taken for one of this run.
            if int(holder) != os.getpid() and (run := _run_of(int(holder))) is not None:
                yield run


def _run_of(pid: int) -> str | None:
    try:
        texts = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except PermissionError:
        return ""
    except OSError:  # it has ended
        return None
    return run_of(dict(text.split("=", 1) for text in texts if "=" in text))


def _opened(path: Path) -> int | None:
    """The lock's file, made if need be; None if that is not possible. In a folder that all users share, it may be any
    user's, a link or a pipe: it is not followed, not waited for and not read."""
    for new in (0, os.O_CREAT | os.O_EXCL, 0):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | new)
            if new:
                os.fchmod(descriptor, 0o644)  # whatever the umask is
            return descriptor
    return None
