"""The program that forks measuring processes: `python -m statsnet.measure.process_server SOCKET_FD`.

A fresh Python needs seconds to import torch and a library of models. This one has imported them and gives each task a
copy of itself. It waits for requests in a single thread. It must never run an operator of torch, for libgomp's threads
do not survive a fork: the copy would wait for them forever. Nor may it touch a GPU, for CUDA does not work in the copy
then; if a library does so when it is imported, the server ends, and tasks get processes of their own. It ends as soon
as its parent closes the socket, and its copies end with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import mmap
import os
import random
import selectors
import signal
import socket
import sys
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import msgspec

from statsnet.environment import SETTINGS
from statsnet.measure.end_with_parent import end_with_parent
from statsnet.measure.process_main import exit_at_once, main

LIBRARIES = frozenset(
    {
        "diffusers",
        "reference_workloads",
        "statsnet",
        "timm",
        "torch_geometric",
        "torchvision",
        "transformers",
    }
)
"""What the server may import beside torch: no module that its user may change between two tasks, and none that starts
threads of OpenMP or CUDA when it is imported."""

CAPTURE, CAPTURING = "statsnet.profiling.capture", "torch._dynamo"
"""Torch imports this part of itself, for more than a second, when a mode first sees an operator: tasks that import
CAPTURE will do so. Other parts are left out: Inductor starts processes when it is imported."""

REQUEST_BYTES = 1 << 16

WITHOUT_CUDA = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
"""Has torch ask the driver's management library whether there is a GPU. By default it asks CUDA, which would then fail
in every copy."""

_CUDA_NOT_INITIALIZED = 3


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A task: its folder, its class ("module:Class"), the working directory, and the variables that it has beside the
    server's. Four file descriptors travel along: the line to whoever wants the process, its standard input, its output,
    and the pipe for its events."""

    folder: str
    task: str
    directory: str
    variables: dict[str, str]

    @property
    def modules_file(self) -> Path:
        return Path(self.folder) / "modules.json"


@dataclass(frozen=True, slots=True)
class _Child:
    """A copy that runs, and the line to whoever wants it: it hears the process's number and then its exit code."""

    pid: int
    line: socket.socket
    request: Request

    def say(self, number: int) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.line.send(str(number).encode())

    def end(self) -> None:
        """End it and the processes that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


class _Server:
    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._children: dict[int, _Child] = {}
        self._added = {name: value for name, value in WITHOUT_CUDA.items() if name not in os.environ}
        os.environ.update(self._added)
        self._needed: dict[str, list[str]] = {}
        """By a task's class: the modules that its processes have imported and this one has not."""
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._requests, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only so that a child's end writes to the waker
        signal.set_wakeup_fd(self._waker.fileno())

    def serve(self) -> None:
        """Until the parent closes its end of the socket."""
        _import("torch")  # before somebody waits for it
        while True:
            for key, _ in self._selector.select():
                if isinstance(child := key.data, _Child):  # nobody wants it any more
                    if child.pid in self._children:
                        self._selector.unregister(child.line)
                        child.end()
                elif key.fileobj is self._woken:
                    self._woken.recv(REQUEST_BYTES)
                    self._reap()
                elif not self._take_request():
                    return

    def end_all(self) -> None:
        for child in self._children.values():
            child.end()

    def _take_request(self) -> bool:
        message, fds, _, _ = socket.recv_fds(self._requests, REQUEST_BYTES, 4)
        if not message:
            return False
        request = msgspec.json.decode(message, type=Request)
        line_fd, *others = fds
        for fd in fds:
            os.set_inheritable(fd, False)  # recv_fds does not see to it
        line = socket.socket(fileno=line_fd)
        self._import_for(request.task)
        if cuda_is_initialized():
            return False
        server_pid, pid = os.getpid(), _fork()
        if pid == 0:
            self._be_the_process(server_pid, request, line, *others)
        for fd in others:
            os.close(fd)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # the child does so too: whoever is first
        self._children[pid] = child = _Child(pid, line, request)
        child.say(pid)
        self._selector.register(line, selectors.EVENT_READ, child)
        return True

    def _import_for(self, task: str) -> None:
        """Import the task's own module and what its last processes needed. A module that cannot be imported here fails
        in the process, which tells why."""
        for name in filter(_may_be_shared, [task.partition(":")[0], *self._needed.pop(task, [])]):
            _import(name)
        if CAPTURE in sys.modules:
            _import(CAPTURING)
        gc.freeze()  # else the first collection in a copy would write to every object, and so copy all memory

    def _reap(self) -> None:
        for child in [*self._children.values()]:
            if os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            child.end()  # what it started; while it is not reaped, no other process can have its number
            code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
            with contextlib.suppress(OSError, ValueError):  # it was killed before or while it wrote them
                needed = json.loads(child.request.modules_file.read_text(encoding="utf-8"))
                self._needed.setdefault(child.request.task, []).extend(needed)
            del self._children[child.pid]
            with contextlib.suppress(KeyError):
                self._selector.unregister(child.line)
            child.say(code)
            child.line.close()

    def _be_the_process(
        self, server_pid: int, request: Request, line: socket.socket, stdin_fd: int, output_fd: int, events_fd: int
    ) -> NoReturn:
        """What a copy does between the fork and its end."""
        code = 1
        try:
            os.setpgid(0, 0)
            end_with_parent()
            if os.getppid() == server_pid:  # else the server has ended in between
                self._forget()
                line.close()
                for fd, standard in ((stdin_fd, 0), (output_fd, 1), (output_fd, 2)):
                    os.dup2(fd, standard)
                os.close(stdin_fd)
                os.close(output_fd)
                os.chdir(request.directory)
                os.environ.update(request.variables)
                code = _run(request, events_fd)
        except SystemExit as stop:
            code = _exit_code(stop)
        except BaseException:
            traceback.print_exc()
        finally:
            exit_at_once(code)

    def _forget(self) -> None:
        """Take back what makes this process a server."""
        for name in self._added:
            os.environ.pop(name, None)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for end in (self._requests, self._woken, self._waker, *(child.line for child in self._children.values())):
            end.close()


def _import(module: str) -> None:
    with contextlib.suppress(Exception):
        importlib.import_module(module)


def cuda_is_initialized(library: str = "libcuda.so.1") -> bool:
    """Whether this process has initialized CUDA's driver. Asking does not do so."""
    try:
        driver = ctypes.CDLL(library)
        return bool(driver.cuCtxGetCurrent(ctypes.byref(ctypes.c_void_p())) != _CUDA_NOT_INITIALIZED)
    except (OSError, AttributeError):  # no driver here
        return False


def _fork() -> int:
    """Python 3.12 warns of a fork in a process with threads. Those here are OpenBLAS's, which ends them before the fork
    and starts them anew after it."""
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _run(request: Request, events_fd: int) -> int:
    kept = _random_memory()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # as in a fresh process; Python's own generator does so by itself
    known, settings = {*sys.modules}, _settings()
    try:
        return main(Path(request.folder), events_fd)
    finally:
        del kept
        # A library that changes a setting when it is imported (monai does) would change it for others' tasks.
        if _settings() == settings:
            new = [name for name in sys.modules if name not in known and _may_be_shared(name)]
            request.modules_file.write_text(json.dumps(new), encoding="utf-8")


def _random_memory() -> list[bytearray | mmap.mmap]:
    """Blocks of random sizes, to be kept while the task runs.

    Copies have the same addresses, but one process must remain one sample of luck: how tensors lie against each other
    and against lines, pages and sets of the caches can change a time by 10 %. In a fresh process the system chooses the
    addresses at random. Blocks from a byte to a megabyte move whatever comes after them on the heap; the mapping does
    so for stacks of threads and Python's own arenas.
    """
    below = random.SystemRandom().randrange
    blocks = [bytearray(1 + below(1 << below(1, 21))) for _ in range(64)]
    return [*blocks, mmap.mmap(-1, mmap.PAGESIZE * (1 + below(512)))]


def _may_be_shared(module: str) -> bool:
    return module == CAPTURING or module.partition(".")[0] in LIBRARIES


def _settings() -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in SETTINGS}


def _exit_code(stop: SystemExit) -> int:
    """As Python itself exits."""
    if stop.code is None or isinstance(stop.code, int):
        return (stop.code or 0) & 0xFF
    traceback.print_exc()
    return 1


if __name__ == "__main__":
    server = _Server(socket.socket(fileno=int(sys.argv[1])))
    server.serve()
    server.end_all()
    os._exit(0)  # at once: there is nothing to take down
