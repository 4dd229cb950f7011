"""Measuring processes that a server forks (process_server.py), as seen by who wants them.

There is one server for each process that measures. It starts with the first task that can be forked, and ends with this
process. It has the variables and the cores that this process had when it started. While these are not the same, no task
is forked; if the change lasts, a new server takes its place.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from statsnet.environment.record import cores_to_run_on, on_all_cores
from statsnet.errors import MeasurementError
from statsnet.measure.device_lock import LOCKS
from statsnet.measure.process_server import REQUEST_BYTES, Request

SWITCH = "STATSNET_PROCESS_SERVER"
"""0: no server, every task in a fresh process."""

SET_BY_TORCH = frozenset({"TORCHINDUCTOR_CACHE_DIR"})
"""Variables that are set when a part of torch is imported."""

ENDED_WITH_SERVER = 256
"""In place of an exit code, none of which is as large."""

FORK_LIMIT_S = 120.0
"""A server that does not fork within this time, because an import hangs, counts as ended."""

_MODULE = "statsnet.measure.process_server"


class ServerEnded(Exception):
    """The server ended before it had forked a process."""


class ForkedProcess:
    """A process that the server has forked, used like a subprocess.Popen."""

    stdin: BinaryIO | None = None

    def __init__(self, server: Server, pid: int, line: socket.socket) -> None:
        self._server, self._pid, self._line = server, pid, line
        self._code: int | None = None
        self._is_in_use = True

    @property
    def pid(self) -> int:
        return self._pid

    def poll(self) -> int | None:
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; the negative number of a signal; or ENDED_WITH_SERVER. Raises subprocess.TimeoutExpired."""
        if self._code is None:
            self._line.settimeout(timeout)
            try:
                self._code = int(self._line.recv(REQUEST_BYTES) or ENDED_WITH_SERVER)
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(_MODULE, timeout or 0.0) from None
            except ConnectionResetError:
                self._code = ENDED_WITH_SERVER
        return self._code

    def end(self) -> None:
        """End the process and whatever it started. Once is enough."""
        if not self._is_in_use:
            return
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)  # the server ends it then
        if self.wait() == ENDED_WITH_SERVER:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)
        self._line.close()
        self._is_in_use = False
        self._server.running -= 1


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a process takes over from its parent and libraries read only once."""

    variables: Mapping[str, str]
    cores: frozenset[int]

    def are_still(self, now: Surroundings) -> bool:
        """Whether they have not changed, but for what torch has set meanwhile, as it would in every process."""
        kept = {n: v for n, v in now.variables.items() if n in self.variables or n not in SET_BY_TORCH}
        return self == Surroundings(kept, now.cores)


class Server:
    """Starts the server, which is ready some seconds later. Raises MeasurementError if no process can be started."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.owner_pid = os.getpid()
        self.running = 0
        """Processes that are in use."""
        self.has_forked = False
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, on_all_cores():
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno())],
                    env=surroundings.variables,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), *LOCKS.descriptors),
                    start_new_session=True,  # Ctrl-C is for this process, which then ends those that it wants no longer
                )
        except OSError as error:  # too many processes, or no memory
            self._requests.close()
            raise MeasurementError("no process can be started", cause=str(error)) from error

    def fork(self, request: Request, *, stdin: int, output: int, events: int) -> ForkedProcess:
        """Waits until the process has been forked. Raises ServerEnded."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                fds = [theirs.fileno(), stdin, output, events]
                socket.send_fds(self._requests, [msgspec.json.encode(request)], fds)
            ours.settimeout(FORK_LIMIT_S)
            pid = ours.recv(REQUEST_BYTES)
            ours.settimeout(None)
            if not pid:
                raise ServerEnded
        except BaseException as error:
            ours.close()  # if a process comes of it after all, the server ends that
            if isinstance(error, (BrokenPipeError, ConnectionResetError, TimeoutError)):
                raise ServerEnded from error
            raise
        self.has_forked = True
        self.running += 1
        return ForkedProcess(self, int(pid), ours)

    def close(self) -> None:
        """End the server and every process of it."""
        self._requests.close()
        self._process.kill()
        self._process.wait()


class _Current:
    """The server of this process, if there is one."""

    def __init__(self) -> None:
        self._server: Server | None = None
        self._lock = threading.Lock()
        self._changed: Surroundings | None = None
        self._is_broken = False

    def fork(self, request: Request, surroundings: Surroundings, **fds: int) -> ForkedProcess | None:
        with self._lock:
            server = self._server_in(surroundings)
            if server is None:
                return None
            try:
                return server.fork(request, **fds)
            except ServerEnded:
                self._is_broken = not server.has_forked  # another one would end in the same way
                self.close()
                return None

    def start(self, surroundings: Surroundings) -> None:
        with self._lock:
            self._server_in(surroundings)

    def _server_in(self, surroundings: Surroundings) -> Server | None:
        if self._is_broken:
            return None
        if self._server is not None:
            if self._server.owner_pid != os.getpid():  # this process is itself a fork of the one with the server
                return None
            if not self._server.surroundings.are_still(surroundings):
                lasts, self._changed = surroundings == self._changed, surroundings
                if not lasts or self._server.running:
                    return None
                self.close()
        self._changed = None
        self._server = self._server or Server(surroundings)
        return self._server

    def close(self) -> None:
        if self._server is not None and self._server.owner_pid == os.getpid():
            self._server.close()
            self._server = None


_current = _Current()
close_server = _current.close
"""End this process's server. The next task that can be forked starts another."""
atexit.register(close_server)


def start_server(variables: Mapping[str, str]) -> None:
    """Start this process's server, so that it imports torch while this process has something else to do."""
    if _may_fork():
        _current.start(_surroundings(variables))


def _may_fork() -> bool:
    return sys.platform == "linux" and os.environ.get(SWITCH) != "0"


def _surroundings(variables: Mapping[str, str]) -> Surroundings:
    return Surroundings(variables, frozenset(cores_to_run_on()))


def fork_process(
    task: str,
    folder: Path,
    variables: Mapping[str, str],
    *,
    rank_env: dict[str, str],
    takes_turns: bool,
    output: int,
    events: int,
) -> ForkedProcess | None:
    """A process that runs the task in `folder`, of the class `task` ("module:Class"), with `rank_env` of its own. None
    if it has to be a fresh one now: on systems other than Linux, with SWITCH set to 0, if the variables have just
    changed, or without a server."""
    if not _may_fork():
        return None
    # The server's own may differ from those, which this process may also have changed itself since it began.
    own = {name: variables[name] for name in SET_BY_TORCH & variables.keys()} | rank_env
    request = Request(folder=str(folder), task=task, directory=os.getcwd(), variables=own)
    stdin_fd, stdin = _standard_input(takes_turns)
    process = None
    try:
        process = _current.fork(request, _surroundings(variables), stdin=stdin_fd, output=output, events=events)
    finally:
        os.close(stdin_fd)
        if process is None and stdin is not None:
            stdin.close()
    if process is not None:
        process.stdin = stdin
    return process


def _standard_input(takes_turns: bool) -> tuple[int, BinaryIO | None]:
    """What the process reads from, and where to write to it. It reads nothing unless it takes turns."""
    if not takes_turns:
        return os.open(os.devnull, os.O_RDONLY), None
    reading_end, writing_end = os.pipe()
    return reading_end, open(writing_end, "wb")
