"""Network namespaces whose only way to each other has a chosen rate: a veth pair with a token bucket at each end.

A namespace has no name: it lives as long as the processes within it. The first one reads a pipe of this program's, so
that namespaces, interfaces and buckets are gone with this program, however it ends. Needs Linux, root, iproute2 and
util-linux.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from statsnet.environment.launch import RUN_VARIABLE
from statsnet.errors import MeasurementError, StatsNetError
from statsnet.measure import end_with_parent

INTERFACE = "statsnet"
PORT = 29511
"""Any: nobody else is in the namespaces."""

BURST_S, LEAST_BURST, QUEUE_S = 1e-3, 65_536 + 4096, 0.2
"""A bucket holds what a millisecond lets through, but one packet as the kernel joins them (64 KiB) at least. Packets
that wait longer than the queue's time are dropped."""

LOOK_S = 0.05

NEW_NAMESPACE = ["unshare", "--net", "sh", "-c", "echo ready; exec cat"]


@dataclass(frozen=True, slots=True)
class LinkedNamespaces:
    """Two of them, each known by its first process."""

    holders: tuple[int, int]

    def limit(self, gbit_per_s: float | None) -> None:
        """Let each end send so many Gbit/s; None: as many as the kernel moves."""
        for holder in self.holders:
            _within(holder, "tc", "qdisc", "del", "dev", INTERFACE, "root", may_fail=True)  # none is there at first
            if gbit_per_s is not None:
                burst = max(LEAST_BURST, round(gbit_per_s * 1e9 / 8 * BURST_S))
                rate = ["rate", f"{gbit_per_s * 1e9:.0f}bit", "burst", str(burst), "latency", f"{1e3 * QUEUE_S:g}ms"]
                _within(holder, "tc", "qdisc", "add", "dev", INTERFACE, "root", "tbf", *rate)

    def run_ranks(self, command: Sequence[str], variables: dict[str, str], label: str, timeout_s: float) -> None:
        """Run a program in both together, which find each other by torchrun's variables, over the link alone.

        Raises MeasurementError if one fails, with the last line that it printed, or if both take longer than
        `timeout_s`. Leaves no process behind.
        """
        ranks: list[subprocess.Popen[bytes]] = []
        with contextlib.ExitStack() as stack:
            said = [stack.enter_context(tempfile.TemporaryFile()) for _ in self.holders]
            for rank, (holder, output) in enumerate(zip(self.holders, said, strict=True)):
                ranks.append(_started(holder, command, variables | _of_rank(rank, len(self.holders)), output))
                stack.callback(_end, ranks[-1])
            _wait(ranks, said, label, time.monotonic() + timeout_s)


@contextlib.contextmanager
def linked_namespaces() -> Iterator[LinkedNamespaces]:
    """Raises StatsNetError where they cannot be made."""
    if missing := [name for name in ("unshare", "nsenter", "ip", "tc") if shutil.which(name) is None]:
        raise _not_here(f"there is no program '{missing[0]}'")
    with contextlib.ExitStack() as stack:
        holders = (_holder(stack), _holder(stack))
        pair = ["ip", "link", "add", INTERFACE, "type", "veth", "peer", "name", INTERFACE, "netns", str(holders[1])]
        try:
            _within(holders[0], *pair)
            for rank, holder in enumerate(holders):
                _within(holder, "ip", "address", "add", f"{_address(rank)}/24", "dev", INTERFACE)
                _within(holder, "ip", "link", "set", "lo", "up")
                _within(holder, "ip", "link", "set", INTERFACE, "up")
            linked = LinkedNamespaces(holders)
            linked.limit(1.0)
            linked.limit(None)
        except MeasurementError as error:
            raise _not_here(str(error.cause)) from error
        yield linked


def _address(rank: int) -> str:
    return f"10.177.0.{rank + 1}"


def _holder(stack: contextlib.ExitStack) -> int:
    """A process in a namespace of its own, which ends when the pipe that it reads is closed."""
    holder = subprocess.Popen(NEW_NAMESPACE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    stack.enter_context(holder)  # which closes its pipes and waits for it
    assert holder.stdout is not None and holder.stderr is not None
    if holder.stdout.readline() != b"ready\n":
        raise _not_here(holder.stderr.read().decode(errors="replace").strip())
    return holder.pid


def _not_here(cause: str) -> StatsNetError:
    return StatsNetError(
        "two network namespaces with a link between them cannot be made here",
        cause=cause,
        hint="run this on Linux as root, in a container with CAP_SYS_ADMIN and CAP_NET_ADMIN, with iproute2 installed",
    )


def _within(holder: int, *command: str, may_fail: bool = False) -> str:
    return _run("nsenter", f"--net=/proc/{holder}/ns/net", *command, may_fail=may_fail)


def _run(*command: str, may_fail: bool = False) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode and not may_fail:
        raise MeasurementError(f"'{' '.join(command)}' failed", cause=ended.stderr.strip(), hint="look at it alone")
    return ended.stdout


def _of_rank(rank: int, processes: int) -> dict[str, str]:
    """Torchrun's variables for processes on machines of their own, and the interface that gloo is to take."""
    return {
        "RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": _address(0), "MASTER_PORT": str(PORT), "GLOO_SOCKET_IFNAME": INTERFACE,
        RUN_VARIABLE: "namespaces", "TORCHELASTIC_USE_AGENT_STORE": "False",
    }  # fmt: skip


def _started(
    holder: int, command: Sequence[str], variables: dict[str, str], output: IO[bytes]
) -> subprocess.Popen[bytes]:
    entered = ["nsenter", f"--net=/proc/{holder}/ns/net", *command]
    return subprocess.Popen(
        [*ending_with_this_program(), *entered],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=os.environ | variables,
    )


def ending_with_this_program() -> list[str]:
    """What begins the command of a program that is to end with this one, in whatever way this one ends."""
    return [sys.executable, "-I", "-S", str(Path(end_with_parent.__file__)), str(os.getpid())]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _wait(ranks: Sequence[subprocess.Popen[bytes]], said: Sequence[IO[bytes]], label: str, until: float) -> None:
    while any(process.poll() is None for process in ranks):
        if any(process.poll() for process in ranks):
            break
        if time.monotonic() > until:
            raise MeasurementError(f"{label} took too long", cause="it was ended", hint="allow more with --timeout")
        time.sleep(LOOK_S)
    for rank, process in enumerate(ranks):
        if process.poll():
            said[rank].seek(0)
            lines = said[rank].read().decode(errors="replace").strip().splitlines()
            cause = lines[-1] if lines else f"exit code {process.returncode}"
            raise MeasurementError(f"rank {rank} of {label} failed", cause=cause, hint="run it alone under torchrun")
