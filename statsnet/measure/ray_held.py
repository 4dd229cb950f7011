"""Nodes of a Ray cluster that other Ray jobs hold: who they are, and which errands wait there."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from statsnet.errors import printable
from statsnet.measure.engine import Place

if TYPE_CHECKING:
    from statsnet.measure.ray_cluster import RayCluster

BEGINS_WITHIN_S = 30.0
"""An errand that has not begun by then is looked for, and again after as long. A worker starts in seconds."""

LOOK_LIMIT_S = 20.0
"""What a node tells of its work later than this is old."""

HELD_LIMIT_S = 300.0
"""What only one node can do does not wait for longer there, if there are nodes that others do not hold."""

LONGEST_NAME = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class AtWork:
    """What a node works at: the names of our own tasks, and the tasks and reservations of others."""

    own: tuple[str, ...]
    others: tuple[str, ...]


def at_work(suffix: str) -> tuple[list[str], list[str]]:
    """The fields of AtWork, for the node whose worker runs this. The names of our own tasks end with `suffix`: a
    worker that was started before its job does not know its job's id.

    Ray names its workers' processes by their tasks; only its dashboard, which is often not there, could tell more.
    """
    import psutil  # Ray brings it along
    import ray

    this, own, others = psutil.Process(), list[str](), list[str]()
    commands = _commands()
    for worker in this.parent().children():
        with contextlib.suppress(psutil.Error, IndexError):
            kind, _, task = worker.cmdline()[0].partition("::")
            job = worker.environ().get("RAY_JOB_ID")  # Ray's own helpers have none
            if worker == this or kind != "ray" or not job or task == "IDLE":
                continue
            if task.endswith(suffix):
                own.append(task.removesuffix(suffix))
            else:
                others.append(f"{task} ({commands[job]})" if job in commands else task)
    return own, others or list(_reservations(ray.get_runtime_context().get_node_id()))


def _commands() -> dict[str, str]:
    """How each job was started."""
    with contextlib.suppress(Exception):  # no public interface tells it without Ray's dashboard
        from ray._private.state import state

        return {job["JobID"]: job.get("Entrypoint") or f"job {job['JobID']}" for job in state.job_table()}
    return {}


def _reservations(node: str) -> Iterator[str]:
    """They hold a node without a process there. Ray goes on listing those that have ended."""
    from ray.util import placement_group_table

    tables: dict[str, dict[str, Any]] = placement_group_table()
    for group, table in tables.items():
        if table.get("state") != "REMOVED" and node in table.get("bundles_to_node_id", {}).values():
            yield f"placement group {table.get('name') or group}"


@dataclass(slots=True, kw_only=True)
class Sent:
    """An errand that was sent to a place; `name` is that of its task."""

    index: int
    place: Place
    node: str
    name: str
    since_s: float = field(default_factory=time.monotonic)
    has_begun: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """By whom a node is held, and since when; the node last told it at `until_s`."""

    since_s: float
    until_s: float
    others: tuple[str, ...]

    def __str__(self) -> str:
        first = printable(self.others[0])
        more = f" and {len(self.others) - 1} more" if len(self.others) > 1 else ""
        return (first if len(first) <= LONGEST_NAME else f"{first[:LONGEST_NAME]}…") + more


class HeldNodes:
    """Which nodes other jobs hold, as far as errands wait there. `note` is told of each."""

    def __init__(self, cluster: RayCluster, note: Callable[[str], None]) -> None:
        self._cluster, self._note = cluster, note
        self._held: dict[str, Held] = {}
        self._told: set[str] = set()
        self._asked: dict[Any, str] = {}
        self._asked_s = time.monotonic()

    @property
    def nodes(self) -> Set[str]:
        return self._held.keys()

    def look(self, sent: Collection[Sent]) -> None:
        """Hear what nodes tell of their work, and ask those on which errands should have begun, and those that were
        held. Nothing is waited for: who answers is heard at a later look."""
        now_s = time.monotonic()
        told = self._cluster.told(self._asked) if now_s - self._asked_s < LOOK_LIMIT_S else {}
        for each in sent:
            each.has_begun |= each.node in told and each.name in told[each.node].own
        late = [s for s in sent if not s.has_begun and now_s - s.since_s >= BEGINS_WITHIN_S]
        waiting = {s.node: s.place.name for s in late}
        for node, work in told.items():
            self._hear(node, work, waiting.get(node))
        nodes = waiting.keys() | self._held.keys()
        if nodes and now_s - self._asked_s >= BEGINS_WITHIN_S:
            self.end()
            self._asked, self._asked_s = self._cluster.ask(nodes), now_s

    def _hear(self, node: str, work: AtWork, waiting: str | None) -> None:
        """`waiting` is the name of the place there at which an errand should have begun."""
        if not work.others or not (waiting or (node in self._held and not work.own)):
            self._held.pop(node, None)
            return
        now_s = time.monotonic()
        since_s = self._held[node].since_s if node in self._held else now_s
        held = self._held[node] = Held(since_s=since_s, until_s=now_s, others=work.others)
        if waiting and node not in self._told:
            self._told.add(node)
            self._note(_noted(waiting, held))

    def end(self) -> None:
        """Ask no longer."""
        self._cluster.end([*self._asked])
        self._asked = {}

    def too_long(self, node: str) -> Held | None:
        """Who has held a node for longer than the limit, if somebody has."""
        held = self._held[node]
        return held if held.until_s - held.since_s >= HELD_LIMIT_S else None


def _noted(name: str, held: Held) -> str:
    return (
        f"{name} is held by another Ray job: {held}; other nodes measure meanwhile, and if all are held, this command "
        "waits. It may be stopped: run it again to continue"
    )
