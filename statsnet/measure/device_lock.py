"""One command at a time measures on a device: two would measure each other.

A command takes a device's lock with its first measuring process there, and keeps it until it ends. A program that is no
command holds it while its processes run. The lock is a file that all users of the machine share and nobody writes.
Measuring processes inherit it: it is free again when the last of them has ended, whatever has ended the command.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from statsnet.measure.patience import PATIENCE
from statsnet.progress import silent

SWITCH = "STATSNET_DEVICE_LOCK"
"""0: no lock. Else the folder of the locks, instead of FOLDER."""

FOLDER = "/tmp"
"""Not $TMPDIR, which may be a user's own."""


class DeviceLocks:
    """Those that this process holds. `tell` is told when it has to wait for another program."""

    def __init__(self) -> None:
        self.tell: Callable[[str], object] = silent
        self._held: dict[str, int] = {}
        self._users: Counter[str] = Counter()
        self._in_command = False
        self._guard = threading.RLock()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """For a process that is to hold them too."""
        return tuple(self._held.values())

    @contextlib.contextmanager
    def command(self) -> Iterator[None]:
        """What is taken within is kept until its end."""
        self._in_command = True
        try:
            yield
        finally:
            self._in_command = False
            self._release_unused()

    @contextlib.contextmanager
    def measuring_on(self, device: str) -> Iterator[None]:
        """Wait until no other program measures on `cpu`, `cuda` or `cuda:N`; another name needs no lock."""
        name = name_of(device)
        if name is None or os.environ.get(SWITCH) == "0":
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
            if not self._in_command:
                self._release_unused()

    def _take(self, name: str, device: str) -> None:
        descriptor = _opened(Path(os.environ.get(SWITCH) or FOLDER, f"statsnet-{name}.lock"))
        if descriptor is None:  # measuring without a lock is better than not at all
            return
        # Processes that torchrun has started make one step together.
        kind = fcntl.LOCK_SH if "RANK" in os.environ else fcntl.LOCK_EX
        try:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                self.tell(
                    f"another program of StatsNet measures on {device}: waiting for its end ({SWITCH}=0 does not wait)"
                )
                begin_s = time.monotonic()
                fcntl.flock(descriptor, kind)
                PATIENCE.begun_s += time.monotonic() - begin_s
        except OSError:  # a file system without locks
            os.close(descriptor)
            return
        except BaseException:  # Ctrl-C
            os.close(descriptor)
            raise
        self._held[name] = descriptor

    def _release_unused(self) -> None:
        with self._guard:
            for name in [name for name in self._held if not self._users[name]]:
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
