"""A Ray cluster: how it is reached, its nodes, and a function run on one of them.

https://docs.ray.io/en/latest/ray-core. Nothing of Ray is imported before a cluster is asked for.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import shlex
import signal
import socket
import subprocess
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from statsnet.errors import StatsNetError, UsageError, first_line
from statsnet.measure import ray_held, ray_worker
from statsnet.measure.ray_held import AtWork

ANSWER_LIMIT_S = 60.0
"""A node that starts no worker within this time, after one has ended there, counts as gone."""

CONNECT_LIMIT_S = 10.0

NAME = "ray"
SCHEME = f"{NAME}://"


@contextlib.contextmanager
def connected(engine: str) -> Iterator[RayCluster]:
    """The cluster at `ray://HOST:PORT` (`ray` alone: the one in RAY_ADDRESS, else the one that this machine is part
    of), until the end of the block.

    Raises UsageError where ray is not installed, StatsNetError where no cluster answers, or once it does not any more.
    """
    address = None if engine == NAME else engine
    if find_spec("ray") is None:
        raise UsageError("--engine ray needs Ray", cause="it is not installed", hint="pip install 'statsnet[cluster]'")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else Ray may send reports to its makers
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")  # else Ray, once it has lost a cluster, starts one here
    import ray

    if ray.is_initialized():
        yield RayCluster(ray)
        return
    with _kept_off_stdout():
        with _signals_kept(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                ray.init(address=_reachable(address), log_to_driver=False, logging_level=logging.ERROR)
            except Exception as error:  # ConnectionError, RuntimeError (versions), ImportError (grpc), and others
                raise _no_cluster(address or os.environ.get("RAY_ADDRESS"), error) from error
        try:
            with _told_if_ended():
                yield RayCluster(ray)
        except (ConnectionError, ray.exceptions.RaySystemError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the system's, as where output goes to a closed pipe; Ray's own have no number
            raise _lost_cluster(error) from error
        finally:
            ray.shutdown()


def _reachable(address: str | None) -> str:
    """How ray.init is to be called: a cluster that this machine is part of is joined as one of its nodes, any other
    through Ray Client. Raises OSError where nothing listens: Ray itself would try for minutes."""
    here = _clusters_here()
    wanted = address or os.environ.get("RAY_ADDRESS", "")
    if wanted in ("", "auto"):
        if not here:
            raise ConnectionError("no Ray runs on this machine")
        return "auto"
    host, _, port = wanted.removeprefix(SCHEME).rpartition(":")
    for known in here:
        known_host, _, known_port = known.rpartition(":")
        if port == known_port and host in (known_host, "localhost", "127.0.0.1"):
            return known
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_LIMIT_S).close()
    return wanted


def _clusters_here() -> list[str]:
    """The addresses (host:port) of the clusters that this machine is part of."""
    from ray._private.services import find_gcs_addresses  # what `ray status` and ray.init("auto") ask, too

    return sorted(find_gcs_addresses())


@contextlib.contextmanager
def _kept_off_stdout() -> Iterator[None]:
    """Ray prints there what its nodes report, such as the end of one. A command's stdout is its result, and the engine
    says by itself what concerns the user."""
    from ray._private import worker

    printing: list[tuple[Any, str]] = [(worker, "print_to_stdstream")]
    with contextlib.suppress(ImportError):  # it needs grpc of ray[client], which a cluster's own node may lack
        from ray.util.client.logsclient import LogstreamClient

        printing.append((LogstreamClient, "stdstream"))
    with contextlib.ExitStack() as stack:
        for holder, name in printing:
            stack.callback(setattr, holder, name, getattr(holder, name))
            setattr(holder, name, _say_nothing)
        yield


def _say_nothing(*_: object, **__: object) -> None:
    pass


def _no_cluster(address: str | None, error: Exception) -> StatsNetError:
    where = f"at '{address}'" if address else "on this machine"
    hint = "start one with `ray start --head`, and name it: --engine ray://HOST:10001"
    if isinstance(error, ImportError):
        hint = "pip install 'ray[client]', which an address that begins with ray:// needs"
    elif "ersion" in str(error):
        hint = "install the Ray and Python of the cluster here"
    return StatsNetError(f"no Ray cluster could be used {where}", cause=_cause(error), hint=hint)


def _cause(error: Exception) -> str:
    """The first line of what it says; and the last, if the first only announces a traceback of the cluster's."""
    first, last = first_line(error), str(error).strip().splitlines()[-1:]
    return f"{first} {last[0].strip()}" if first.endswith(":") and last != [first] else first


LOST = "the Ray cluster does not answer any more"
START_AGAIN = (
    "look whether its head runs (`ray status` there), and start it again if not: then the same command goes on with "
    "what is kept"
)


def _lost_cluster(error: Exception) -> StatsNetError:
    told = re.search(r'details = "(.+?)"', str(error))
    return StatsNetError(LOST, cause=told[1] if told else first_line(error), hint=START_AGAIN)


@contextlib.contextmanager
def _told_if_ended() -> Iterator[None]:
    """Once a cluster's head has ended, Ray ends a program of the cluster's own nodes within a minute, in the middle of
    whatever it does. A shell that waits for the end of a pipe is left to say what is to be done."""
    if os.name != "posix":
        yield
        return
    said = shlex.quote(
        f"statsnet: the command was ended from outside: {LOST}, or somebody killed it\ntry: {START_AGAIN}"
    )
    wait = ["sh", "-c", f"read -r _ || printf '%s\\n' {said} >&2"]
    with subprocess.Popen(wait, stdin=subprocess.PIPE, start_new_session=True) as waiting:
        try:
            yield
        finally:
            waiting.communicate(b"\n")


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray answers SIGTERM in its own way; the command ends in its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """As Ray knows it: what it offers to tasks."""

    id: str
    name: str
    cpus: float
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a function takes of a node."""

    node: str
    cpus: float = 0.0
    gpus: int = 0


class RayCluster:
    """A cluster that this program is connected to."""

    def __init__(self, ray: ModuleType) -> None:
        self._ray = ray
        self.errors: Any = ray.exceptions
        self._run_errand = ray.remote(ray_worker.run_errand)
        self._answer = ray.remote(ray_worker.answer)
        self._at_work = ray.remote(ray_held.at_work)
        self._suffix = f"-{secrets.token_hex(4)}"
        """Ends the names of our tasks, so that they are told apart from those of other commands."""

    def nodes(self) -> list[Node]:
        """Those that are alive, by name; nodes of one machine are told apart by their ids."""
        alive = [node for node in self._ray.nodes() if node["Alive"]]
        hosts = Counter(node["NodeManagerHostname"] for node in alive)
        nodes = []
        for node in alive:
            host, offered = node["NodeManagerHostname"], node["Resources"]
            name = host if hosts[host] == 1 else f"{host} ({node['NodeID'][:8]})"
            cpus, gpus = float(offered.get("CPU", 0.0)), int(offered.get("GPU", 0))
            nodes.append(Node(id=node["NodeID"], name=name, cpus=cpus, gpus=gpus))
        return sorted(nodes, key=lambda node: node.name)

    def send(self, message: bytes, share: Share, name: str = "run_errand") -> Any:
        """Have an errand run on a node, as soon as its share of the node is free; returns Ray's reference. `name` is
        what Ray calls the task, with our suffix."""
        return self._on(name, self._run_errand, share, message)

    def _on(self, name: str, function: Any, share: Share, *arguments: Any) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(share.node, soft=False)
        placed = function.options(
            name=f"{name}{self._suffix}",
            num_cpus=share.cpus,
            num_gpus=share.gpus,
            scheduling_strategy=there,
            max_retries=0,
        )
        return placed.remote(*arguments)

    def wait(self, references: Sequence[Any], number: int, timeout_s: float) -> list[Any]:
        """Those that have ended, when so many have or the time is over."""
        ended, _ = self._ray.wait([*references], num_returns=number, timeout=timeout_s)
        return list(ended)

    def get(self, reference: Any) -> Any:
        """Raises one of `errors`."""
        return self._ray.get(reference)

    def end(self, references: Sequence[Any]) -> None:
        """End the workers that are at them."""
        for reference in references:
            with contextlib.suppress(Exception):  # the cluster may be gone
                self._ray.cancel(reference, force=True)

    def ask(self, nodes: Iterable[str]) -> dict[Any, str]:
        """Have each of these nodes tell what it works at; returns Ray's references, with the nodes."""
        return {self._on("at_work", self._at_work, Share(node=node), self._suffix): node for node in nodes}

    def told(self, asked: dict[Any, str], timeout_s: float = 0.0) -> dict[str, AtWork]:
        """What those nodes work at that have told it by then. Their references are taken out of `asked`."""
        found = {}
        for ref in self.wait([*asked], len(asked), timeout_s) if asked else []:
            node = asked.pop(ref)
            with contextlib.suppress(self.errors.RayError):
                own, others = self.get(ref)
                found[node] = AtWork(own=tuple(own), others=tuple(others))
        return found

    def answers(self, node: str) -> bool:
        """Whether a node still starts workers."""
        try:
            ping = self._on("answer", self._answer, Share(node=node))
            return bool(self.wait([ping], 1, ANSWER_LIMIT_S) and self.get(ping))
        except self.errors.RayError:
            return False
