"""Measuring processes in a sandbox of bubblewrap: without a network, and with nothing to write to but temporary files.

What such a process can still do: read what this user can read, use the processor, the memory and the GPU, and hand back
a result, which is checked. Folders in which other programs of the user keep their sockets are hidden, and so are
sockets elsewhere, as in ~/.ssh: whoever may speak with the socket of a shell or an agent needs no network.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path

from statsnet.environment import cache_dir
from statsnet.environment.temporary import live_folders, temporary_folder
from statsnet.errors import StatsNetError, UsageError, first_line

PROGRAM = "bwrap"

APART = ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
"""Not the control group: limits of a container around it must be seen."""

HIDDEN = ("/tmp", "/var/tmp", "/run")
"""Empty within. /tmp can be written; what is written there is gone at the end."""

DEVICES = ("/dev/nvidia*", "/dev/dri", "/dev/kfd")
"""Of GPUs of NVIDIA, of any, of AMD."""

_shown: ContextVar[tuple[Path, ...] | None] = ContextVar("sandbox", default=None)
"""Places that are shown in the sandbox that is on, beside those that every process needs."""


def is_on() -> bool:
    """Whether processes are started in a sandbox now."""
    return _shown.get() is not None


def show(place: Path) -> None:
    """Let the processes in the sandbox that is on read there, though it may be a folder that is hidden from them."""
    if (shown := _shown.get()) is not None:
        _shown.set((*shown, place))


@contextlib.contextmanager
def sandboxed(on: bool = True) -> Iterator[None]:
    """Processes started within are in a sandbox, if it is `on`.

    Raises UsageError if this system has none, StatsNetError if it does not let this user make one.
    """
    if not on:
        yield
        return
    check()
    token = _shown.set(())
    try:
        yield
    finally:
        _shown.reset(token)


def check() -> None:
    """Start a sandbox once, so that whatever is missing is known before the work."""
    if shutil.which(PROGRAM) is None:
        raise UsageError(
            "there is no sandbox on this machine",
            cause=f"it is made by bubblewrap, and the program {PROGRAM} was not found",
            hint="apt install bubblewrap (or dnf, pacman), or use a container without a network in its place",
        )
    with temporary_folder() as folder:
        words = [*_command(folder), sys.executable, "-I", "-S", "-c", "pass"]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
            said, failed = done.stderr, done.returncode != 0
        except (OSError, subprocess.TimeoutExpired) as error:
            said, failed = str(error), True
    if failed:
        raise StatsNetError(
            "the sandbox cannot be started here",
            cause=first_line(ValueError(said)),
            hint="let users make namespaces (sysctl user.max_user_namespaces, on Ubuntu also "
            "kernel.apparmor_restrict_unprivileged_userns=0), or use a container without a network in its place",
        )


def around(*folders: Path) -> list[str]:
    """Put before a program's command: it runs in a sandbox in which it may write to these `folders`. Empty if none is
    on."""
    return _command(*folders) if is_on() else []


def _command(*folders: Path) -> list[str]:
    needed = [Path.cwd(), *map(Path, sys.path), Path(sys.prefix), Path(sys.base_prefix), cache_dir(), *live_folders()]
    shown = [*needed, *(_shown.get() or ())]
    hidden = [path for path in HIDDEN if os.path.isdir(path) and not os.path.islink(path)]
    devices = sorted(device for pattern in DEVICES for device in glob.glob(pattern))
    seen = _within(shown, hidden)
    return command(*folders, shown=seen, hidden=hidden, devices=devices, sockets=_sockets(seen, hidden))


def command(
    *folders: Path, shown: Iterable[Path], hidden: Sequence[str], devices: Iterable[str], sockets: Iterable[str] = ()
) -> list[str]:
    """The words before a program: it sees all files but `sockets`, and none in the `hidden` folders except those
    `shown`, and may write to `folders`. Later words go before earlier ones where they name the same place."""
    words = [PROGRAM, *APART, "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for device in devices:
        words += ["--dev-bind", device, device]
    for path in hidden:
        words += ["--tmpfs", path]
    for place in shown:
        words += ["--ro-bind", str(place), str(place)]
    for path in sockets:  # a socket can be spoken with though its folder cannot be written to
        words += ["--ro-bind", os.devnull, path]
    for folder in folders:
        words += ["--bind", str(folder), str(folder)]
    return [*words, "--setenv", "TMPDIR", "/tmp", "--chdir", os.getcwd(), "--"]


def _sockets(seen: Sequence[Path], hidden: Sequence[str]) -> list[str]:
    """Of those that other programs listen at now: what this user may speak with, and would see in the sandbox."""
    try:
        lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="surrogateescape").splitlines()[1:]
    except OSError:  # a system that does not say
        return []
    named = {words[7] for line in lines if len(words := line.split(maxsplit=7)) == 8 and words[7].startswith("/")}
    # What made one may have given it another name since, as ssh does; its folder is mostly still the same.
    beside = {os.path.join(folder, name) for folder in map(os.path.dirname, named) for name in _names_in(folder)}
    return sorted(
        path for path in set(map(os.path.realpath, named | beside))
        if _is_socket(path) and os.access(path, os.W_OK)
        and (any(Path(path).is_relative_to(place) for place in seen)
             or not any(Path(path).is_relative_to(place) for place in hidden))
    )  # fmt: skip


def _names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # not this user's
        return []


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _within(places: Iterable[Path], hidden: Sequence[str]) -> list[Path]:
    """Those that lie in a hidden folder, the outer ones first."""
    real = {place.resolve() for place in places if place.exists()}
    return sorted(p for p in real if any(p != Path(h) and p.is_relative_to(h) for h in hidden))
